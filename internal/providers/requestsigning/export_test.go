package requestsigning

import "net/http"

// SignAWSBy signs by other rules than those of the service, as some cases of AWS's suite require.
func SignAWSBy(req *http.Request, body []byte, a AWS, contentHash, normalize, escapeTwice bool) error {
	return signAWS(req, body, a, awsRules{contentHash: contentHash, normalize: normalize, escapeTwice: escapeTwice})
}

// WithoutVersion leaves out oauth_version, as the examples of RFC 5849 do.
func (o OAuth1) WithoutVersion() OAuth1 {
	o.withoutVersion = true
	return o
}

// BaseString returns what is signed.
func (o OAuth1) BaseString(req *http.Request) (string, error) { return baseString(req, o.parameters()) }
