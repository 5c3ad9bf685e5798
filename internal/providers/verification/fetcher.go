package verification

import (
	"context"
	"fmt"
	"net/http"

	"sallyport/internal/platform/egress"
)

// egressFetcher fetches keys under the address policy of the process.
type egressFetcher struct{ client *egress.Client }

// NewKeyFetcher returns a KeyFetcher that uses the client.
func NewKeyFetcher(c *egress.Client) KeyFetcher { return egressFetcher{c} }

// FetchKeys returns the body of a response of status 200.
func (f egressFetcher) FetchKeys(ctx context.Context, r KeyRequest) ([]byte, error) {
	target, refused := f.client.ParseTarget(r.URL)
	if refused != nil {
		return nil, fmt.Errorf("fetch keys: %s", refused.Message)
	}
	request := egress.Request{Method: http.MethodGet, URL: target, Header: http.Header{"Accept": {"*/*"}},
		Timeout: KeyTimeout, MaxResponseBytes: MaxKeyBytes}
	if r.Body != nil {
		request.Method, request.Body = http.MethodPost, r.Body
		request.Header.Set("Content-Type", "application/json")
	}
	response, failed := f.client.Do(ctx, request)
	switch {
	case failed != nil:
		return nil, fmt.Errorf("fetch keys: %s", failed.Message)
	case response.Status != http.StatusOK:
		return nil, fmt.Errorf("fetch keys: the server responded with status %d", response.Status)
	case response.Truncated:
		return nil, fmt.Errorf("fetch keys: the response is larger than %d bytes", MaxKeyBytes)
	}
	return response.Body, nil
}
