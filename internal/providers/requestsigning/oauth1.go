package requestsigning

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
)

// OAuth1 is what a request is signed with under OAuth 1.0 (RFC 5849), revision A.
type OAuth1 struct {
	ConsumerKey    string
	ConsumerSecret secretbox.Secret
	// Token and TokenSecret are those of the account, or the temporary ones while an account is connected. Both are empty
	// in the request for temporary ones.
	Token       string
	TokenSecret secretbox.Secret
	// Method is HMAC-SHA1 or HMAC-SHA256.
	Method string
	// Nonce is different for each request with the same time. If it is empty, one of 128 random bits is taken.
	Nonce string
	Now   time.Time
	// Realm is sent, if it is not empty, and not signed.
	Realm string
	// Callback is the URL to return to, in a request for temporary credentials only.
	Callback string
	// Verifier is what the provider returned there, in the request for the token only.
	Verifier secretbox.Secret

	// withoutVersion leaves out oauth_version, as the examples of the RFC do. Some providers require it.
	withoutVersion bool
}

// maxForm bounds the form that SignOAuth1 reads from the body of a request.
const maxForm = 1 << 20

// SignOAuth1 signs a request in the header Authorization. If its body is a form, the form is signed too; its GetBody
// must return it, as that of a request that http.NewRequest made of bytes does.
func SignOAuth1(req *http.Request, o OAuth1) error {
	algorithm, known := strings.CutPrefix(o.Method, "HMAC-SHA")
	switch {
	case !known || algorithm != "1" && algorithm != "256":
		return fmt.Errorf("%w: the signature method is unknown", ErrSettings)
	case o.Now.IsZero() || o.Now.Unix() <= 0:
		return fmt.Errorf("%w: the time is missing", ErrSettings)
	case strings.ContainsFunc(o.Realm, func(r rune) bool { return r < ' ' || r >= 0x7f || r == '"' || r == '\\' }):
		return fmt.Errorf("%w: the realm cannot be in a header", ErrSettings)
	case o.ConsumerKey == "", o.Token == "" && o.TokenSecret != "":
		return fmt.Errorf("%w: the consumer key or the token is missing", ErrKey)
	}
	if err := check(req); err != nil {
		return err
	}
	protocol := o.parameters()
	base, err := baseString(req, protocol)
	if err != nil {
		return err
	}
	key := escape(o.ConsumerSecret.Reveal()) + "&" + escape(o.TokenSecret.Reveal())
	signature := sum(newHash("sha"+algorithm), key, []byte(base))
	protocol = append(protocol, parameter{"oauth_signature", base64.StdEncoding.EncodeToString(signature)})

	var header strings.Builder
	header.WriteString("OAuth ")
	if o.Realm != "" {
		header.WriteString(`realm="` + o.Realm + `", `)
	}
	for i, p := range protocol {
		if i > 0 {
			header.WriteString(", ")
		}
		header.WriteString(p.name + `="` + escape(p.value) + `"`)
	}
	req.Header.Set("Authorization", header.String())
	return nil
}

// parameter is one of a request that is signed.
type parameter struct{ name, value string }

// parameters returns those of the protocol, without the signature.
func (o OAuth1) parameters() []parameter {
	nonce := o.Nonce
	if nonce == "" {
		nonce = rand.Text()
	}
	var all []parameter
	add := func(name, value string) {
		if value != "" {
			all = append(all, parameter{name, value})
		}
	}
	add("oauth_callback", o.Callback)
	add("oauth_consumer_key", o.ConsumerKey)
	add("oauth_nonce", nonce)
	add("oauth_signature_method", o.Method)
	add("oauth_timestamp", strconv.FormatInt(o.Now.Unix(), 10))
	add("oauth_token", o.Token)
	add("oauth_verifier", o.Verifier.Reveal())
	if !o.withoutVersion {
		add("oauth_version", "1.0")
	}
	return all
}

// baseString returns what is signed (RFC 5849, section 3.4.1).
func baseString(req *http.Request, protocol []parameter) (string, error) {
	all := slices.Clone(protocol)
	form, err := formOf(req)
	if err != nil {
		return "", err
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return "", fmt.Errorf("%w: its query is malformed", ErrRequest)
	}
	for _, values := range []url.Values{query, form} {
		for name, list := range values {
			if strings.HasPrefix(name, "oauth_") {
				return "", fmt.Errorf("%w: it has parameters of the protocol", ErrRequest)
			}
			for _, value := range list {
				all = append(all, parameter{name, value})
			}
		}
	}
	pairs := make([]parameter, len(all))
	for i, p := range all {
		pairs[i] = parameter{escape(p.name), escape(p.value)}
	}
	// By name, and by value where names are equal: a text with an equals sign between them has another order.
	slices.SortFunc(pairs, func(a, b parameter) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	joined := make([]string, len(pairs))
	for i, p := range pairs {
		joined[i] = p.name + "=" + p.value
	}
	path := req.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	uri := strings.ToLower(req.URL.Scheme) + "://" + strings.ToLower(hostWithoutDefaultPort(req)) + path
	return strings.ToUpper(method) + "&" + escape(uri) + "&" + escape(strings.Join(joined, "&")), nil
}

// formOf returns the form in the body of a request, which is empty for every other content (section 3.4.1.3.1).
func formOf(req *http.Request) (url.Values, error) {
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" || req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	if req.GetBody == nil {
		return nil, fmt.Errorf("%w: its form can be read only once", ErrRequest)
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("%w: its form cannot be read", ErrRequest)
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxForm+1))
	if err != nil || len(text) > maxForm {
		return nil, fmt.Errorf("%w: its form cannot be read, or is too large", ErrRequest)
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, fmt.Errorf("%w: its form is malformed", ErrRequest)
	}
	return form, nil
}
