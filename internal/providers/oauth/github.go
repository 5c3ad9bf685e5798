package oauth

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
)

// GitHubApp is an installation of a GitHub App, which gets tokens of an hour.
type GitHubApp struct {
	// BaseURL is that of the API, such as "https://api.github.com".
	BaseURL string
	// AppID is the client id of the app, or its number.
	AppID string
	// Key is its private key in PEM.
	Key secretbox.Secret
	// InstallationID is the number of the installation.
	InstallationID string
}

var installationID = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)

// The token of a GitHub App expires at most 10 minutes after now, and is issued a minute before now, so that clocks may
// differ. Between the two are 10 minutes, so that it makes no difference from which of them the limit is counted.
const (
	appBackdate = time.Minute
	appLifetime = 9 * time.Minute
)

// InstallationToken makes the request for a token of an installation. InstallationTokenSpec reads the response.
func InstallationToken(ctx context.Context, a GitHubApp, now time.Time) (*http.Request, error) {
	if !installationID.MatchString(a.InstallationID) {
		return nil, unusable("the installation id is not a number")
	}
	token, err := Assertion{Key: a.Key, Issuer: a.AppID, Lifetime: appLifetime, backdate: appBackdate}.sign(now)
	if err != nil {
		return nil, err
	}
	base, err := parseURL(a.BaseURL)
	if err != nil {
		return nil, err
	}
	if base.RawQuery != "" {
		return nil, unusable("the base URL has a query")
	}
	req, err := newRequest(ctx, http.MethodPost, strings.TrimSuffix(base.String(), "/")+"/app/installations/"+
		a.InstallationID+"/access_tokens", "", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	return req, nil
}

// InstallationTokenSpec is how ParseToken reads the token of an installation. GitHub responds with 404 for one that was
// removed, and with 401 for a token that the key of the app did not sign.
func InstallationTokenSpec() TokenSpec {
	return TokenSpec{Access: "token", ExpiresAt: "expires_at", DefaultTTL: time.Hour,
		DeadStatuses: []int{http.StatusNotFound}, ClientStatuses: []int{http.StatusUnauthorized}}
}
