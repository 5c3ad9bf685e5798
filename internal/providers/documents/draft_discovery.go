package documents

import (
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// isDiscovery reports whether a document is one of Google's API Discovery Service.
func isDiscovery(root jsonindex.Value) bool {
	return root.Get("kind").String() == "discovery#restDescription"
}

// discoveryBase returns the base URL of a document of the Discovery format.
func (w *drafter) discoveryBase(root jsonindex.Value) *base {
	at := root.Get("rootUrl")
	s := server{at: at, url: strings.TrimRight(strings.TrimSpace(at.String()), "/") + "/" +
		strings.TrimLeft(root.Get("servicePath").String(), "/")}
	b, wrong := w.readServer(&s)
	if wrong != "" || b.asked {
		w.note(root, "connections name the base URL: the rootUrl "+quote(s.url)+" "+wrong)
		return w.askBase([]server{s})
	}
	return b
}

// Google's endpoints of OAuth 2.0, which documents of the Discovery format do not name.
const (
	googleAuthorize = "https://accounts.google.com/o/oauth2/v2/auth"
	googleToken     = "https://oauth2.googleapis.com/token"  //nolint:gosec // an endpoint
	googleRevoke    = "https://oauth2.googleapis.com/revoke" //nolint:gosec // an endpoint
)

// discoveryModes makes modes of the member auth and the parameter key. Google's tokens are sent to Google only.
func (m *modes) discoveryModes(root jsonindex.Value) {
	scopes := root.Path("auth", "oauth2", "scopes")
	host := m.base.entry
	switch google := host == "googleapis.com" || strings.HasSuffix(host, ".googleapis.com"); {
	case scopes.Kind() == jsonindex.Object && google:
		m.addScopes(scopes)
		m.list = []modeForm{
			{Mode: "oauth2", AuthorizeURL: googleAuthorize, TokenURL: googleToken, RevokeURL: googleRevoke,
				// A refresh token comes with the first consent only, unless the user is asked again.
				Params: map[string]string{"access_type": "offline", "prompt": "consent"}},
			{Mode: "service_account", TokenURL: googleToken},
		}
		m.takeEndpoints(m.list)
	case scopes.Exists():
		m.w.note(scopes, "the document names no endpoints of OAuth; connections take a token that was made elsewhere")
		m.list = []modeForm{{Mode: "bearer", Description: madeElsewhere}}
	}
	if root.Path("parameters", "key", "location").String() == "query" {
		m.list = append(m.list, modeForm{Mode: "api_key", Request: &requestForm{Query: map[string]string{
			"key": "${cred.api_key}"}}})
	}
	if len(m.list) == 0 {
		m.list = []modeForm{{Mode: "none"}}
	}
}

// anyModes adds the usual modes for a document whose format says nothing of security.
func (m *modes) anyModes() {
	name := distinctName("header_name", func(name string) bool {
		return slices.ContainsFunc(m.fields, func(f configField) bool { return f.Name == name })
	})
	m.fields = append(m.fields, configField{name, fieldForm{Title: "Header",
		Description: "The header that carries the API key.", Pattern: "[A-Za-z0-9_-]{1,64}", Default: "X-Api-Key"}})
	m.list = []modeForm{{Mode: "bearer"}, {Mode: "api_key", Request: &requestForm{Headers: map[string]string{
		"${config." + name + "}": "${cred.api_key}"}}}, {Mode: "basic"}, {Mode: "none"}}
}
