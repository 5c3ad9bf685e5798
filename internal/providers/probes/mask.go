package probes

import (
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/platform/masking"
	"sallyport/internal/providers/outbound"
)

// NewMasker returns a masker of all secrets that a request was made from, and of the values that the request carries
// them in. Of the headers that the caller gave, those are masked whose names say that they may be secret.
func NewMasker(e *outbound.Engine, v *outbound.Values, req *http.Request, given http.Header) *masking.Masker {
	secrets := []string{v.Client.Secret.Reveal(), v.Client.PrivateKey.Reveal()}
	for _, value := range v.Credentials {
		secrets = append(secrets, value.Reveal())
	}
	for _, f := range e.ConfigFields() {
		if f.Secret {
			secrets = append(secrets, v.Config[f.Name].Reveal())
		}
	}
	for name, values := range req.Header {
		if !ordinary(name) && (mayBeSecret(name) || !slices.Equal(values, given.Values(name))) {
			for _, value := range values {
				_, token, _ := strings.Cut(value, " ") // of a scheme and its credentials
				secrets = append(secrets, value, token)
			}
		}
	}
	m := new(masking.Masker)
	m.Add(secrets...)
	return m
}

// mayBeSecret reports whether the name of a header says that its value may be secret.
func mayBeSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "token", "secret", "password", "cookie", "api-key", "apikey"},
		func(part string) bool { return strings.Contains(name, part) })
}

// ordinary reports whether a header carries no credential in any definition.
func ordinary(name string) bool {
	switch name {
	case "User-Agent", "Accept", "Accept-Language", "Content-Type", "Content-Length":
		return true
	default:
		return strings.HasSuffix(name, "-Version")
	}
}
