package e2e_test

import (
	"net/http"

	"sallyport/internal/platform/id"
)

type rejectionFixtures struct{ id string }

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
			f.put(rejectionFixtures{w.rejections(c, "connection_id="+f.name, 2)[0].ID})
		},
		samples: func(_ *world, f fixtures) []sample {
			return []sample{{id: "list-webhook-rejections", status: http.StatusOK},
				{id: "get-webhook-rejection", path: map[string]string{"id": part[rejectionFixtures](f).id}, status: http.StatusOK}}
		},
		lists: map[string]map[string]string{"list-webhook-rejections": {"connection_id": "acme",
			"provider_config_key": "github", "reason": "signature_mismatch"}},
	}
}
