package verification

import (
	"context"
	"strings"
)

// urlForm is a URL that the provider may have called instead of the one that the gateway knows.
type urlForm struct{ name, base, path, query string }

func (v *Verifier) tryURLs(ctx context.Context, p *proof, r *Request) Diagnosis {
	if !p.content.url {
		return Diagnosis{}
	}
	for _, f := range urlForms(p, r) {
		changed, other := *r, *p
		changed.Path, changed.RawQuery, other.urlBase = f.path, f.query, f.base
		if f.base != "" && v.passes(ctx, &other, &changed) {
			return Diagnosis{CauseURLRewritten, "The secret is correct, but the provider signed the URL " + f.name +
				". Register the webhook URL exactly as the connection shows it, or set url_base of the connection, or " +
				"public-url of the server, to the URL that the provider calls."}
		}
	}
	return Diagnosis{}
}

// urlForms returns the forms to try, by what differs.
func urlForms(p *proof, r *Request) []urlForm {
	base := r.PublicURL
	if p.urlBase != "" {
		base = p.urlBase
	}
	forms := []urlForm{
		{"with or without the port", variantBase(base, urlVariant{otherPort: true}), r.Path, r.RawQuery},
		{"without the query", base, r.Path, ""},
		{"with a slash at the end", base, r.Path + "/", r.RawQuery},
		{"without the slash at the end", base, strings.TrimSuffix(r.Path, "/"), r.RawQuery},
		{"with the other of http and https", otherScheme(base), r.Path, r.RawQuery},
		{"with its escapes decoded", base, string(decodeURL([]byte(r.Path))), string(decodeURL([]byte(r.RawQuery)))},
	}
	// There may be a proxy in front, or the public URL is not set: the request itself shows the host that its sender
	// called.
	for _, host := range []string{r.Host, firstOf(r.Header.Get("X-Forwarded-Host"))} {
		if host == "" || strings.ContainsAny(host, "/?#@[{ ") {
			continue
		}
		for _, scheme := range []string{"https://", "http://"} {
			for _, called := range []string{scheme + host, variantBase(scheme+host, urlVariant{otherPort: true})} {
				forms = append(forms, urlForm{"with the host that the request names", called, r.Path, r.RawQuery})
			}
		}
	}
	return forms
}

func otherScheme(base string) string {
	if rest, ok := strings.CutPrefix(base, "https://"); ok {
		return "http://" + rest
	}
	if rest, ok := strings.CutPrefix(base, "http://"); ok {
		return "https://" + rest
	}
	return ""
}

// firstOf returns the first entry of a list, which is the one nearest to the sender.
func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(first)
}
