package requestsigning_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/requestsigning"
)

// awsCase is a folder of AWS's suite: the texts of its files.
type awsCase map[string]string

func awsSuite(t *testing.T) map[string]awsCase {
	t.Helper()
	file, err := os.Open("testdata/aws-signing-test-suite-v4.tar.gz")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	cases := map[string]awsCase{}
	for archive := tar.NewReader(unzipped); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return cases
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		name := path.Base(path.Dir(entry.Name))
		if cases[name] == nil {
			cases[name] = awsCase{}
		}
		cases[name][path.Base(entry.Name)] = string(text)
	}
}

// readAWSRequest makes a request of the text of one. net/http would refuse paths that are not escaped and headers that
// go on in the next line.
func readAWSRequest(t *testing.T, text string) (*http.Request, []byte) {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSuffix(head, "\n"), "\n")
	method, rest, _ := strings.Cut(lines[0], " ")
	target := strings.TrimSuffix(rest, " HTTP/1.1")
	rawPath, query, _ := strings.Cut(target, "?")
	plain, err := url.PathUnescape(rawPath)
	require.NoError(t, err)
	req := &http.Request{Method: method, Header: http.Header{},
		URL: &url.URL{Scheme: "https", Path: plain, RawPath: rawPath, RawQuery: query}}
	var last string
	for _, line := range lines[1:] {
		if strings.HasPrefix(line, " ") {
			values := req.Header[last]
			values[len(values)-1] += " " + strings.TrimSpace(line)
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		if last = http.CanonicalHeaderKey(name); last == "Host" {
			req.URL.Host = value
		} else {
			req.Header.Add(name, value)
		}
	}
	return req, []byte(body)
}

// AWS publishes which signature each of these requests has.
func TestAWSSuite(t *testing.T) {
	t.Parallel()
	ran := 0
	for name, files := range awsSuite(t) {
		if files["context.json"] == "" {
			// Two cases of older form have none. One is below; the other has different times in its files.
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var of struct {
				Credentials struct {
					AccessKeyID     string           `json:"access_key_id"`
					SecretAccessKey secretbox.Secret `json:"secret_access_key"`
					Token           secretbox.Secret `json:"token"`
				} `json:"credentials"`
				Normalize        bool      `json:"normalize"`
				Region           string    `json:"region"`
				Service          string    `json:"service"`
				SignBody         bool      `json:"sign_body"`
				Timestamp        time.Time `json:"timestamp"`
				OmitSessionToken bool      `json:"omit_session_token"`
			}
			require.NoError(t, json.Unmarshal([]byte(files["context.json"]), &of))
			a := requestsigning.AWS{AccessKeyID: of.Credentials.AccessKeyID, SecretAccessKey: of.Credentials.SecretAccessKey,
				Region: of.Region, Service: of.Service, Now: of.Timestamp}
			if !of.OmitSessionToken {
				a.SessionToken = of.Credentials.Token
			}
			req, body := readAWSRequest(t, files["request.txt"])
			// The paths of the suite that need escapes have none, and are escaped once.
			escapeTwice := req.URL.EscapedPath() == req.URL.Path
			require.NoError(t, requestsigning.SignAWSBy(req, body, a, of.SignBody, of.Normalize, escapeTwice))
			_, want, found := strings.Cut(files["header-signed-request.txt"], "\nAuthorization:")
			require.True(t, found)
			want, _, _ = strings.Cut(want, "\n")
			require.Equal(t, strings.TrimSpace(want), req.Header.Get("Authorization"))
		})
	}
	require.Equal(t, 38, ran)
}

// Every service but S3 escapes the path that was sent again: this is AWS's case double-url-encode.
func TestAWSEscapesTwice(t *testing.T) {
	t.Parallel()
	files := awsSuite(t)["double-url-encode"]
	req, body := readAWSRequest(t, files["request.txt"])
	require.NoError(t, requestsigning.SignAWSBy(req, body, requestsigning.AWS{AccessKeyID: "AKIDEXAMPLE",
		SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", Region: "us-east-2", Service: "lambda",
		Now: time.Date(2021, 5, 11, 15, 40, 45, 0, time.UTC)}, false, true, true))
	_, want, _ := strings.Cut(files["header-signed-request.txt"], "\nAuthorization:")
	require.Equal(t, strings.TrimSpace(want), req.Header.Get("Authorization"))
}

// The examples of "Authenticating Requests: Using the Authorization Header" in the reference of Amazon S3.
func TestAWSReferenceOfS3(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, target, body, signature string
		header                          http.Header
	}{
		"get object": {http.MethodGet, "/test.txt", "", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
			http.Header{"Range": {"bytes=0-9"}}},
		"lifecycle": {http.MethodGet, "/?lifecycle", "",
			"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", http.Header{}},
		"list": {http.MethodGet, "/?max-keys=2&prefix=J", "",
			"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", http.Header{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), c.method, "https://examplebucket.s3.amazonaws.com"+c.target, nil)
			require.NoError(t, err)
			req.Header = c.header
			require.NoError(t, requestsigning.SignAWS(req, []byte(c.body), requestsigning.AWS{
				AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
				Region: "us-east-1", Service: "s3", Now: time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)}))
			require.True(t, strings.HasSuffix(req.Header.Get("Authorization"), "Signature="+c.signature),
				req.Header.Get("Authorization"))
		})
	}
}

// Nothing is signed of which something else would be sent, and no reason contains a credential.
func TestAWSRefusals(t *testing.T) {
	t.Parallel()
	const mark = "planted-secret"
	good := requestsigning.AWS{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: mark, SessionToken: mark, Region: "us-east-1",
		Service: "s3", Now: time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)}
	request := func(edit func(*http.Request)) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.test/a", nil)
		require.NoError(t, err)
		edit(req)
		return req
	}
	same := func(*http.Request) {}
	for name, c := range map[string]struct {
		of   func(*requestsigning.AWS)
		req  func(*http.Request)
		want error
	}{
		"no key":           {func(a *requestsigning.AWS) { a.AccessKeyID = "" }, same, requestsigning.ErrKey},
		"slash in key":     {func(a *requestsigning.AWS) { a.AccessKeyID = "a/b" }, same, requestsigning.ErrKey},
		"no secret":        {func(a *requestsigning.AWS) { a.SecretAccessKey = "" }, same, requestsigning.ErrKey},
		"newline in token": {func(a *requestsigning.AWS) { a.SessionToken = mark + "\n" }, same, requestsigning.ErrKey},
		"no region":        {func(a *requestsigning.AWS) { a.Region = "" }, same, requestsigning.ErrSettings},
		"region with slash": {func(a *requestsigning.AWS) { a.Region = "us/east" }, same,
			requestsigning.ErrSettings},
		"no service":     {func(a *requestsigning.AWS) { a.Service = "" }, same, requestsigning.ErrSettings},
		"no time":        {func(a *requestsigning.AWS) { a.Now = time.Time{} }, same, requestsigning.ErrSettings},
		"query":          {nil, func(r *http.Request) { r.URL.RawQuery = "a=1;b=2" }, requestsigning.ErrRequest},
		"escape":         {nil, func(r *http.Request) { r.URL.RawQuery = "a=%zz" }, requestsigning.ErrRequest},
		"opaque":         {nil, func(r *http.Request) { r.URL.Opaque = "//other.test/" }, requestsigning.ErrRequest},
		"user":           {nil, func(r *http.Request) { r.URL.User = url.User(mark) }, requestsigning.ErrRequest},
		"header host":    {nil, func(r *http.Request) { r.Header.Set("Host", "other.test") }, requestsigning.ErrRequest},
		"host not ASCII": {nil, func(r *http.Request) { r.Host = "exämple.test" }, requestsigning.ErrRequest},
		"relative path":  {nil, func(r *http.Request) { r.URL.Path = "a" }, requestsigning.ErrRequest},
		"no URL":         {nil, func(r *http.Request) { r.URL = nil }, requestsigning.ErrRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := good
			if c.of != nil {
				c.of(&a)
			}
			req := request(c.req)
			err := requestsigning.SignAWS(req, nil, a)
			require.ErrorIs(t, err, c.want)
			require.NotContains(t, err.Error(), mark)
			require.Empty(t, req.Header.Get("Authorization"))
		})
	}
}

// A request that was signed before is signed again, as after a pause that made the signature too old.
func TestAWSSignsAgain(t *testing.T) {
	t.Parallel()
	a := requestsigning.AWS{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret", SessionToken: "token",
		Region: "us-east-1", Service: "s3", Now: time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)}
	sign := func(req *http.Request, a requestsigning.AWS) http.Header {
		require.NoError(t, requestsigning.SignAWS(req, []byte("body"), a))
		return req.Header.Clone()
	}
	unsigned := func() *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://[::1]:443/a%20b+c/../%2F?b=2&a=x+y", nil)
		require.NoError(t, err)
		return req
	}
	later := a
	later.Now, later.SessionToken = a.Now.Add(time.Hour), ""
	req := unsigned()
	first := sign(req, a)
	require.Equal(t, "[::1]", req.Host)
	require.Equal(t, "/a%20b%2Bc/../%2F?a=x%20y&b=2", req.URL.RequestURI())
	second := sign(req, later)
	require.NotEqual(t, first, second)
	require.Equal(t, sign(unsigned(), later), second)
	for range 2 {
		body, err := req.GetBody()
		require.NoError(t, err)
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "body", string(bytes.TrimSpace(text)))
	}
}
