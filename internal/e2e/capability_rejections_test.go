package e2e_test

import (
	"net/http"

	"sallyport/internal/platform/id"
)

// Rejections covers the record of refused requests.
func (capabilities) Rejections() capability {
	return capability{
		after: []string{"Connections"},
		create: func(w *world, c credentials, f fixtures) {
			w.t.Helper()
			for range 2 {
				w.post(f.connection().pathToken(), githubAs("another secret", "issues", id.NewUUID(), issueOpened)).want(w,
					http.StatusUnauthorized)
			}
			w.rejections(c, "connection_id="+f.name, 2)
		},
		samples: func(*world, fixtures) []sample {
			return []sample{{id: "list-webhook-rejections", status: http.StatusOK}}
		},
		lists: map[string]map[string]string{"list-webhook-rejections": {"connection_id": "acme",
			"provider_config_key": "github", "reason": "signature_mismatch"}},
	}
}
