package requestsigning_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/requestsigning"
)

// awsServer verifies what arrives as AWS documents it, without a line of the signer: the request line as it was sent,
// the headers that the signature names, and the body. It responds with 200 or with why not.
func awsServer(secret string, rawPath bool) http.HandlerFunc {
	escapes := regexp.MustCompile(`[^A-Za-z0-9_.~/-]`)
	escape := func(s string) string {
		return escapes.ReplaceAllStringFunc(s, func(c string) string {
			var out string
			for _, b := range []byte(c) {
				out += fmt.Sprintf("%%%02X", b)
			}
			return out
		})
	}
	keyed := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path, query, _ := strings.Cut(r.RequestURI, "?")
		if rawPath {
			// S3 decodes the key that arrived and escapes it again, each byte that is not unreserved. In a segment, %2F stays.
			plain, err := url.PathUnescape(strings.ReplaceAll(path, "%2F", "%252F"))
			if err != nil {
				http.Error(w, "path", http.StatusBadRequest)
				return
			}
			path = strings.ReplaceAll(escape(plain), "%252F", "%2F")
		} else {
			path = escape(path)
		}
		pairs := []string{}
		for pair := range strings.SplitSeq(query, "&") {
			if pair != "" {
				pairs = append(pairs, pair)
			}
		}
		// By name first: the equals sign sorts after some characters of names.
		slices.SortFunc(pairs, func(a, b string) int {
			return slices.Compare(strings.SplitN(a, "=", 2), strings.SplitN(b, "=", 2))
		})
		var scope, names, signature string
		_, err := fmt.Sscanf(r.Header.Get("Authorization"),
			"AWS4-HMAC-SHA256 Credential=AKID/%s SignedHeaders=%s Signature=%s", &scope, &names, &signature)
		if err != nil {
			http.Error(w, "authorization", http.StatusBadRequest)
			return
		}
		scope, names = strings.TrimSuffix(scope, ","), strings.TrimSuffix(names, ",")
		sum := sha256.Sum256(body)
		hash := hex.EncodeToString(sum[:])
		if r.Header.Get("X-Amz-Content-Sha256") != hash {
			http.Error(w, "content hash", http.StatusBadRequest)
			return
		}
		canonical := r.Method + "\n" + path + "\n" + strings.Join(pairs, "&") + "\n"
		for name := range strings.SplitSeq(names, ";") {
			value := strings.Join(r.Header.Values(name), ",")
			switch name {
			case "host":
				value = r.Host
			case "content-length":
				value = fmt.Sprint(r.ContentLength)
			}
			canonical += name + ":" + value + "\n"
		}
		canonical += "\n" + names + "\n" + hash
		sum = sha256.Sum256([]byte(canonical))
		text := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
		key := []byte("AWS4" + secret)
		for part := range strings.SplitSeq(scope, "/") {
			key = keyed(key, part)
		}
		if hex.EncodeToString(keyed(key, text)) != signature {
			http.Error(w, "signature of "+canonical, http.StatusForbidden)
		}
	}
}

// The request that arrives over a real connection is the one that was signed, for any path, query, header and body.
func TestAWSSignsWhatIsSent(t *testing.T) {
	t.Parallel()
	const secret = "a secret"
	s3, others := httptest.NewServer(awsServer(secret, true)), httptest.NewServer(awsServer(secret, false))
	t.Cleanup(s3.Close)
	t.Cleanup(others.Close)
	text := rapid.StringOf(rapid.SampledFrom([]rune("ab./ +%&=;:@?#'()*,!$~_-[]ü\\\"|^<>{}")))
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + strings.Join(rapid.SliceOfN(rapid.Map(text, url.PathEscape), 0, 5).Draw(t, "segments"), "/")
		query := url.Values{}
		for _, name := range rapid.SliceOfN(text, 0, 4).Draw(t, "names") {
			query.Add(name, text.Draw(t, "value"))
		}
		body := []byte(text.Draw(t, "body"))
		service, at := "s3", s3.URL
		if rapid.Bool().Draw(t, "other") {
			service, at = "execute-api", others.URL
		}
		req, err := http.NewRequestWithContext(t.Context(), rapid.SampledFrom([]string{"GET", "PUT", "DELETE"}).Draw(t,
			"method"), at+path+"?"+query.Encode(), nil)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
		req.Header["X-Amz-Meta-A"] = []string{"one", "two"}
		require.NoError(t, requestsigning.SignAWS(req, body, requestsigning.AWS{AccessKeyID: "AKID",
			SecretAccessKey: secret, SessionToken: "session/token==", Region: "eu-central-1", Service: service,
			Now: time.Unix(1790000000, 0)}))
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		why, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, string(why))
	})
}
