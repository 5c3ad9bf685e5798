package registry_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// publisher is a provider that publishes keys, by URL, and counts the requests for them.
type publisher struct {
	keys  map[string]string
	asked atomic.Int64
	// body is the body of the last request.
	body atomic.Pointer[string]
}

// FetchKeys implements verification.KeyFetcher.
func (p *publisher) FetchKeys(_ context.Context, r verification.KeyRequest) ([]byte, error) {
	p.asked.Add(1)
	body := string(r.Body)
	p.body.Store(&body)
	if response, ok := p.keys[r.URL]; ok {
		return []byte(response), nil
	}
	return nil, errors.New("status 404")
}

// connectKeys prepares a verifier that gets the provider's keys from a publisher.
func connectKeys(t *testing.T, slug string, p *publisher, params map[string]string,
	secrets ...string) *verification.Verifier {
	t.Helper()
	return connectWith(t, slug, verification.Settings{Params: params, Keyring: verification.NewKeyring(p)}, secrets...)
}

// requireParams requires that a connection without one of the parameters that bind it to an account is refused, and
// that a secret is refused too, which nothing would use.
func requireParams(t *testing.T, slug string, params map[string]string) {
	t.Helper()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	p, ok := loaded.Get(slug)
	require.True(t, ok)
	for name := range params {
		fewer := map[string]string{}
		for other, value := range params {
			if other != name {
				fewer[other] = value
			}
		}
		_, err = p.Webhooks.Bind(verification.Settings{Params: fewer})
		require.ErrorContains(t, err, "params."+name, "%s without %s", slug, name)
	}
	_, err = p.Webhooks.Bind(verification.Settings{Params: params,
		Secrets: []verification.Secret{{ID: "0", Value: "a secret of no use"}}})
	require.ErrorContains(t, err, "has no use")
}

// sampleCertificate and sampleKeySet have the public half of the key that signed the requests of the tests below.
const (
	sampleCertificate = `-----BEGIN CERTIFICATE-----
MIICmzCCAYOgAwIBAgIBATANBgkqhkiG9w0BAQsFADARMQ8wDQYDVQQDDAZzYW1w
bGUwHhcNMjYwMTAxMDAwMDAwWhcNNDYwMTAxMDAwMDAwWjARMQ8wDQYDVQQDDAZz
YW1wbGUwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEKAoIBAQDT06MGhhU+3Ond
q30/wPRy47YfDhBq1lf5eaoaXzfGp1P4yh5plX5Zm2F3b9HmHnRLdcRUfJexFQfL
t4XjUEFLlaRwW0qprPETuEMfzhdcN8++9qaAxYJgxJMrWq9AGXC8X63Yb1qB4dA4
u0a7pTLCe1OzgpphAyIdVFJjzUzi75p84DhKM8YhZ4WgQAdeO+B4DGJf84ft1Sq+
PX3DBm1CnMlrq+4PGxDWsLnYvXPVAilr6pnHgMLHfz2P1CEp5b4rP3z7xWKtByqC
skLIt7PFfoHrxbXfPIrSTLispT4Ttm7u44e2vWx1iay8VY7Aj7BwO8hbCjO+OcVB
ClFiSiCJAgMBAAEwDQYJKoZIhvcNAQELBQADggEBAKqgBh5byIExry37smLFChMd
dcjOesD8m9C7CfWhSJKcEyqYkFM2Yxa1JTHSGTrUg1zlJQLpyCGT7GQ1DrrIuXfl
IVb3GQ5ByzHbY/1GtN6MsLtEG0o+K8rurh1xuhH1H6jU+ugOgUWmAPyX061fj0c4
tnP0gFQwaox85WabjnTLZ9/Wl554bkxm8Yi2+YdOS8cTpB8zYTi8BUYMmDT05i/Z
uymTg7KesUaaYq2kASFZABsBgwIxEDHxGTnuRdgo2ag6apxgI+CkPOfVb/WepuyU
uMqTMlaVkUW2YfIixn3xXhP+CvzIBZMVcuGNSL8lGIyLNLCnnDDvd2GNrITI/Zc=
-----END CERTIFICATE-----
`
	sampleKeyN = "09OjBoYVPtzp3at9P8D0cuO2Hw4QatZX-XmqGl83xqdT-MoeaZV-WZthd2_R5h50S3XEVHyXsRUHy7eF41BBS5WkcFtKqazxE7hDH84XXDfPvvam" +
		"gMWCYMSTK1qvQBlwvF-t2G9ageHQOLtGu6UywntTs4KaYQMiHVRSY81M4u-afOA4SjPGIWeFoEAHXjvgeAxiX_OH7dUqvj19wwZtQpzJa6vuDxsQ" +
		"1rC52L1z1QIpa-qZx4DCx389j9QhKeW-Kz98-8VirQcqgrJCyLezxX6B68W13zyK0ky4rKU-E7Zu7uOHtr1sdYmsvFWOwI-wcDvIWwozvjnFQQpR" +
		"YkogiQ"
	sampleKeyID  = "7d680d8c70d44e947133cbd499ebc1a61c3d5abc"
	sampleKeySet = `{"keys":[{"kty":"RSA","e":"AQAB","alg":"RS256","use":"sig","kid":"` + sampleKeyID + `","n":"` + sampleKeyN + `"}]}`
)
