package documents

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// grants reads the grants of OAuth 2.0: of OpenAPI 3 as flows, of Swagger 2.0 as one flow.
func (m *modes) grants(s *scheme) {
	flows := map[string]jsonindex.Value{}
	if m.w.d.Format == Swagger2 {
		flow := s.at.Get("flow").String()
		if n, ok := map[string]string{"accessCode": "authorizationCode", "application": "clientCredentials"}[flow]; ok {
			flow = n
		}
		flows[flow] = s.at
	}
	for _, name := range []string{"authorizationCode", "clientCredentials", "implicit", "password",
		"deviceAuthorization"} {
		if flow := s.at.Path("flows", name); flow.Exists() {
			flows[name] = flow
		}
	}
	var left []string
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		flow := flows[name]
		if from := flow.Get("authorizationUrl").String(); from != "" {
			s.from = from
		}
		var v modeForm
		switch name {
		case "authorizationCode":
			v = modeForm{Mode: "oauth2"}
		case "clientCredentials":
			v = modeForm{Mode: "oauth2_client_credentials"}
		default:
			left = append(left, plainText(name, maxTag))
			continue
		}
		if wrong := m.endpointsOf(&v, flow); wrong != "" {
			s.notes = append(s.notes, "loses its flow "+name+": "+wrong)
			continue
		}
		m.addScopes(flow.Get("scopes"))
		s.variants = append(s.variants, v)
	}
	switch {
	case len(s.variants) == 0:
		s.notes = append(s.notes, "has no flow that connections can use; they take a token that was made elsewhere")
		s.variants = []modeForm{{Mode: "bearer", Description: madeElsewhere}}
	case len(left) > 0:
		s.notes = append(s.notes, "loses its flow "+strings.Join(left, " and its flow "))
	}
}

// endpointsOf reads the endpoints of a flow. It returns a clause that says why they cannot be used.
func (m *modes) endpointsOf(v *modeForm, flow jsonindex.Value) (wrong string) {
	read := func(name string, out *string) {
		text := strings.TrimSpace(flow.Get(name).String())
		if text == "" || wrong != "" {
			return
		}
		if *out, wrong = m.endpoint(text); wrong != "" {
			wrong = name + " " + wrong
		}
	}
	read("tokenUrl", &v.TokenURL)
	if v.Mode == "oauth2" {
		read("authorizationUrl", &v.AuthorizeURL)
		read("refreshUrl", &v.RefreshURL)
		if v.RefreshURL == v.TokenURL {
			v.RefreshURL = ""
		}
	}
	switch {
	case wrong != "":
		return wrong
	case v.TokenURL == "":
		return "it has no tokenUrl"
	case v.Mode == "oauth2" && v.AuthorizeURL == "":
		return "it has no authorizationUrl"
	default:
		return ""
	}
}

// endpoint reads the URL of an endpoint. A relative one follows from the base URL.
func (m *modes) endpoint(text string) (string, string) {
	if strings.ContainsAny(text, "{}$") {
		return "", "has a variable"
	}
	if strings.HasPrefix(text, "http://") {
		text = "https://" + strings.TrimPrefix(text, "http://")
	}
	if strings.HasPrefix(text, "//") {
		text = "https:" + text
	}
	if strings.HasPrefix(text, "https://") {
		u, wrong := fixedURL(text)
		if wrong != "" {
			return "", wrong
		}
		return u.String(), ""
	}
	ref, err := url.Parse(text)
	if err != nil || ref.Scheme != "" || ref.Host != "" {
		return "", "is no https URL"
	}
	if m.base.asked {
		return "", "is relative to a base URL that only connections know"
	}
	origin, path := m.base.origin()
	fixed := templateForm.FindString(path) == ""
	if !strings.HasPrefix(text, "/") && !fixed {
		return "", "is relative to a base URL with variables in its path"
	}
	resolved, err := url.Parse("https://host.invalid" + path + "/")
	if err != nil || !fixed && !strings.HasPrefix(text, "/") {
		return "", "is relative"
	}
	resolved = resolved.ResolveReference(ref)
	if resolved.Fragment != "" || !pathForm.MatchString(resolved.EscapedPath()) || isUnsafe(resolved.EscapedPath()) ||
		resolved.RawQuery != "" && !pathForm.MatchString(resolved.RawQuery) {
		return "", "has characters that must be escaped"
	}
	out := origin + resolved.EscapedPath()
	if resolved.RawQuery != "" {
		out += "?" + resolved.RawQuery
	}
	return out, ""
}
