package documents

import (
	"cmp"
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// requirement is a way to authenticate that operations name: schemes that are all needed.
type requirement struct {
	at    jsonindex.Value
	names []string
	// count is how many operations name it for themselves.
	count int
	// scopes are those that all operations need, by the scheme.
	scopes map[string][]string
}

// Limits of security.
const (
	maxSchemes      = 100
	maxRequirements = 200
	// maxTogether is how many schemes one requirement has, and maxAlternatives how many requirements an operation.
	maxTogether     = 20
	maxAlternatives = 50
	maxModes        = 16
)

// schemes returns the security schemes of the document.
func (d *Document) schemes() jsonindex.Value {
	if d.Format == Swagger2 {
		return d.root.Get("securityDefinitions")
	}
	return d.root.Path("components", "securitySchemes")
}

// requirements returns what operations need: first what all of them do, then what most do. Without any, each scheme is
// one. open is true if nothing is needed.
func (d *Document) requirements() (list []requirement, open bool) {
	index := map[string]int{}
	find := func(alternative jsonindex.Value) *requirement {
		var names []string
		for name := range alternative.Members() {
			if len(names) == maxTogether { // which no connection could have
				return nil
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		sorted := slices.Clone(names)
		slices.Sort(sorted)
		key := strings.Join(sorted, "\x00")
		i, known := index[key]
		switch {
		case len(names) == 0 || !known && len(list) >= maxRequirements:
			return nil
		case !known:
			i = len(list)
			index[key] = i
			list = append(list, requirement{at: alternative, names: names})
		}
		return &list[i]
	}
	global := d.root.Get("security")
	for alternative := range global.Items() {
		if r := find(alternative); r != nil {
			r.addScopes(alternative)
		} else if isEmpty(alternative) {
			open = true
		}
	}
	common, operations := len(list), 0
	for _, item := range d.root.Get("paths").Members() {
		item = d.resolve(item)
		for method, own := range item.Members() {
			if !isMethod(method) {
				continue
			}
			if operations++; operations > MaxOperations {
				break
			}
			count := 0
			for alternative := range own.Get("security").Items() {
				if count++; count > maxAlternatives {
					break
				}
				if r := find(alternative); r != nil {
					r.count++
				}
			}
		}
	}
	slices.SortStableFunc(list[common:], func(a, b requirement) int { return cmp.Compare(b.count, a.count) })
	if len(list) == 0 {
		for name, s := range d.schemes().Members() {
			if len(list) < maxSchemes {
				list = append(list, requirement{at: s, names: []string{name}})
			}
		}
		open = open || len(list) == 0 || global.Kind() == jsonindex.Array
	}
	return list, open
}

// isEmpty reports whether an alternative needs nothing.
func isEmpty(alternative jsonindex.Value) bool {
	for range alternative.Members() {
		return false
	}
	return alternative.Kind() == jsonindex.Object
}

// addScopes adds the scopes of an alternative.
func (r *requirement) addScopes(alternative jsonindex.Value) {
	for name, scopes := range alternative.Members() {
		for s := range scopes.Items() {
			scope, known := s.String(), r.scopes[name]
			if !isScope(scope) || slices.Contains(known, scope) || len(known) >= maxChoices {
				continue
			}
			if r.scopes == nil {
				r.scopes = map[string][]string{}
			}
			r.scopes[name] = append(known, scope)
		}
	}
}

// isScope reports whether a text is one scope of OAuth 2.0 (RFC 6749 section 3.3).
func isScope(text string) bool {
	return text != "" && len(text) <= 255 && !strings.Contains(text, "${") &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}

// credentialNames are the parameters that carry the credentials of connections, which are no properties of an input.
type credentialNames struct {
	headers, query map[string]bool
}

// credentials returns the parameters that the security schemes name.
func (d *Document) credentials() *credentialNames {
	if d.carriers != nil {
		return d.carriers
	}
	c := &credentialNames{headers: map[string]bool{}, query: map[string]bool{}}
	d.carriers = c
	for _, s := range d.schemes().Members() {
		s = d.resolve(s)
		name := s.Get("name").String()
		switch kind := s.Get("type").String(); {
		case isAWS(s):
			for _, n := range []string{"Algorithm", "Content-Sha256", "Credential", "Date", "Security-Token", "Signature",
				"SignedHeaders"} {
				c.headers["x-amz-"+strings.ToLower(n)], c.query["X-Amz-"+n] = true, true
			}
		case kind == "oauth2" || kind == "openIdConnect" || strings.EqualFold(s.Get("scheme").String(), "bearer"):
			c.query["access_token"], c.query["oauth_token"] = true, true // RFC 6750 section 2.3
		case kind == "apiKey" && s.Get("in").String() == "header":
			c.headers[strings.ToLower(name)] = true
		case kind == "apiKey" && s.Get("in").String() == "query":
			c.query[name] = true
		}
	}
	return c
}

// isAWS reports whether a scheme is a signature of AWS, by the extension of its API Gateway.
func isAWS(s jsonindex.Value) bool {
	kind := s.Get("x-amazon-apigateway-authtype").String()
	return strings.EqualFold(kind, "awsSigv4") || kind == "awsS3"
}
