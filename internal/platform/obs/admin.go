package obs

import (
	"context"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminHandler serves metrics, profiles and the health of the process: the reason why it is not ready, or what an
// operator should know although it is, as warnings returns it. It is for operators and requires no credential, so its
// listener must not be reachable by others.
func AdminHandler(metrics prometheus.Gatherer, ready func(context.Context) error,
	warnings func() []string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		status, text := http.StatusOK, "ready\n"
		if err := ready(r.Context()); err != nil {
			status, text = http.StatusServiceUnavailable, err.Error()+"\n"
		}
		for _, w := range warnings() {
			text += "warning: " + w + "\n"
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text)) // the client is gone when this fails
	})
	return mux
}
