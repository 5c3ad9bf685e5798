package requestsigning

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"sallyport/internal/platform/secretbox"
)

// AWS is what a request is signed with under AWS Signature Version 4.
type AWS struct {
	AccessKeyID     string
	SecretAccessKey secretbox.Secret
	// SessionToken belongs to temporary credentials. It is empty for others.
	SessionToken secretbox.Secret
	// Region such as "eu-central-1"; "us-east-1" for most services without regions.
	Region string
	// Service is the name under which the service is signed, such as "s3" or "execute-api".
	Service string
	// Now is the time of the signature. AWS accepts it for five minutes.
	Now time.Time
}

// contentHashHeader holds the SHA-256 of the body. S3 and OpenSearch Serverless require it; other services accept it.
const contentHashHeader = "X-Amz-Content-Sha256"

// SignAWS signs a request with AWS Signature Version 4 in the header Authorization, and makes body its body. Headers
// are signed too, but for User-Agent and some that proxies change, so they must be complete.
//
// The query is put into the order and the escapes of the signature. So is the path: S3 has keys with empty, "." and
// ".." segments, which are kept; for every other service they are resolved.
func SignAWS(req *http.Request, body []byte, a AWS) error {
	rules := awsRules{contentHash: true, normalize: true, escapeTwice: true}
	if slices.Contains(rawPathServices(), a.Service) {
		rules.normalize, rules.escapeTwice = false, false
	}
	return signAWS(req, body, a, rules)
}

// rawPathServices sign the path as it is sent. The others escape the escaped path again.
func rawPathServices() []string {
	return []string{"s3", "s3express", "s3-object-lambda", "s3-outposts"}
}

// awsRules are the differences between services.
type awsRules struct {
	contentHash bool
	normalize   bool
	escapeTwice bool
}

var awsName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

func signAWS(req *http.Request, body []byte, a AWS, rules awsRules) error {
	switch {
	case !awsName.MatchString(a.AccessKeyID), a.SecretAccessKey == "":
		return fmt.Errorf("%w: the access key is missing or malformed", ErrKey)
	case !isASCII(a.SessionToken.Reveal()):
		return fmt.Errorf("%w: the session token is malformed", ErrKey)
	case !awsName.MatchString(a.Region), !awsName.MatchString(a.Service), a.Now.IsZero():
		return fmt.Errorf("%w: region, service or time is missing or malformed", ErrSettings)
	}
	if err := check(req); err != nil {
		return err
	}
	if err := setPath(req.URL, rules); err != nil {
		return err
	}
	setBody(req, body)
	req.Host = hostWithoutDefaultPort(req)
	// A header that a former signature set would be signed.
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", contentHashHeader} {
		req.Header.Del(name)
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	if rules.contentHash {
		req.Header.Set(contentHashHeader, hash)
	}
	// The signer of the library keeps derived keys. A new one for each request leaves none in memory.
	err := v4.NewSigner().SignHTTP(req.Context(), aws.Credentials{AccessKeyID: a.AccessKeyID,
		SecretAccessKey: a.SecretAccessKey.Reveal(), SessionToken: a.SessionToken.Reveal()}, req, hash, a.Service, a.Region,
		a.Now, func(o *v4.SignerOptions) { o.DisableURIPathEscaping = !rules.escapeTwice })
	if err != nil {
		return fmt.Errorf("%w: the signer of AWS refuses it", ErrRequest)
	}
	return nil
}

// setPath gives the URL the path that is signed. Where the path is signed as it is sent, S3 compares it with its own
// escapes of it, so that every byte but unreserved ones must be escaped.
func setPath(u *url.URL, rules awsRules) error {
	raw := u.EscapedPath()
	if rules.normalize {
		raw = resolve(raw)
	}
	if !rules.escapeTwice {
		segments := strings.Split(raw, "/")
		for i, segment := range segments {
			plain, err := url.PathUnescape(segment)
			if err != nil {
				return fmt.Errorf("%w: its path is malformed", ErrRequest)
			}
			segments[i] = escape(plain)
		}
		raw = strings.Join(segments, "/")
	}
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return fmt.Errorf("%w: its path is malformed", ErrRequest)
	}
	u.Path, u.RawPath = plain, raw
	return nil
}

// resolve removes empty, "." and ".." segments of an escaped path, and keeps a slash at its end.
func resolve(raw string) string {
	var kept []string
	for segment := range strings.SplitSeq(raw, "/") {
		switch segment {
		case "", ".":
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		default:
			kept = append(kept, segment)
		}
	}
	path := "/" + strings.Join(kept, "/")
	if strings.HasSuffix(raw, "/") && path != "/" {
		path += "/"
	}
	return path
}
