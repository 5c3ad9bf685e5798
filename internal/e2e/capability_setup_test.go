package e2e_test

import "net/http"

// Setup covers the set-up of an installation.
func (capabilities) Setup() capability {
	return capability{
		samples: func(*world, fixtures) []sample {
			return []sample{{id: "setup-team", body: object{"token": "sps_00000000000000000000000000", "team_name": "Sample",
				"email": "sample@example.test", "password": "staple battery horse"}, status: http.StatusGone,
				unrecorded: "development mode has set the installation up"}}
		},
	}
}
