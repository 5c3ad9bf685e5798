package app

import (
	"context"
	"fmt"
	"net/http"

	"sallyport/internal/platform/egress"
	"sallyport/internal/providers/verification"
)

// keyFetcher fetches the keys that providers publish, by the same way out as everything else.
type keyFetcher struct{ client *egress.Client }

// FetchKeys returns the body of an answer of status 200.
func (f keyFetcher) FetchKeys(ctx context.Context, r verification.KeyRequest) ([]byte, error) {
	target, refused := f.client.ParseTarget(r.URL)
	if refused != nil {
		return nil, fmt.Errorf("fetch keys: %s", refused.Message)
	}
	request := egress.Request{Method: http.MethodGet, URL: target, Header: http.Header{"Accept": {"*/*"}},
		Timeout: verification.KeyTimeout, MaxResponseBytes: verification.MaxKeyBytes}
	if r.Body != nil {
		request.Method, request.Body = http.MethodPost, r.Body
		request.Header.Set("Content-Type", "application/json")
	}
	answer, failed := f.client.Do(ctx, request)
	switch {
	case failed != nil:
		return nil, fmt.Errorf("fetch keys: %s", failed.Message)
	case answer.Status != http.StatusOK:
		return nil, fmt.Errorf("fetch keys: the server answered with status %d", answer.Status)
	case answer.Truncated:
		return nil, fmt.Errorf("fetch keys: the answer is larger than %d bytes", verification.MaxKeyBytes)
	}
	return answer.Body, nil
}
