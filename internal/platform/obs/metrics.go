package obs

import (
	"strconv"

	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// FastBuckets returns the buckets of histograms whose values range from a quarter of a millisecond to half a minute.
func FastBuckets() []float64 { return prometheus.ExponentialBuckets(0.00025, 2, 18) }

// NewRegistry returns a registry with the metrics of the process and the Go runtime.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Requests measures requests by route and status class.
type Requests struct{ seconds *prometheus.HistogramVec }

// NewRequests returns a Requests without measurements.
func NewRequests() *Requests {
	return &Requests{prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sallyport_http_request_seconds",
		Help: "Duration of requests by route and status class.", Buckets: FastBuckets()}, []string{"route", "status"})}
}

// Observe measures a request.
func (r *Requests) Observe(route string, status int, seconds float64) {
	r.seconds.WithLabelValues(route, strconv.Itoa(status/100)+"xx").Observe(seconds)
}

// Metrics returns the metrics.
func (r *Requests) Metrics() []prometheus.Collector { return []prometheus.Collector{r.seconds} }

// Batches measures group commits by batch.
type Batches struct{ seconds, rows *prometheus.HistogramVec }

// NewBatches returns a Batches without measurements.
func NewBatches() *Batches {
	return &Batches{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sallyport_store_commit_seconds",
			Help: "Duration of a group commit, by batch.", Buckets: FastBuckets()}, []string{"batch"}),
		rows: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sallyport_store_batch_rows",
			Help: "Rows joined in a group commit, by batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 9)},
			[]string{"batch"}),
	}
}

// Observe measures the commit of a batch.
func (b *Batches) Observe(batch string, took time.Duration, rows int) {
	b.seconds.WithLabelValues(batch).Observe(took.Seconds())
	b.rows.WithLabelValues(batch).Observe(float64(rows))
}

// Metrics returns the metrics.
func (b *Batches) Metrics() []prometheus.Collector { return []prometheus.Collector{b.seconds, b.rows} }
