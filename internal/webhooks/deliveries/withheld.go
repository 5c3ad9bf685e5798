package deliveries

import (
	"slices"
	"strings"
)

// isWithheld reports whether the name begins with one of withheldPrefixes. Only the one that sorts just before it can.
func isWithheld(name string) bool {
	i, found := slices.BinarySearch(withheldPrefixes[:], name)
	return found || i > 0 && strings.HasPrefix(name, withheldPrefixes[i-1])
}

// withheldPrefixes are those of headers of the gateway itself, of conditions on the response, of proxies and content
// delivery networks (of the latter about the sender's address, certificate and user), and of headers that a server
// reads in place of the method, the path or the user, or as an order of its own. They are sorted, and none begins with
// another.
var withheldPrefixes = [...]string{ //nolint:gochecknoglobals // a constant list
	"akamai-", "cf-", "cloudfront-", "fastly-", "fly-", "if-", "next-", "proxy-", "sallyport-", "ssl-client-",
	"tailscale-", "wl-proxy-", "x-accel-", "x-akamai-", "x-amzn-mtls-", "x-amzn-oidc-", "x-appgw-", "x-arr-",
	"x-auth-request-", "x-authenticated-", "x-authentik-", "x-azure-", "x-client-cert", "x-envoy-", "x-forwarded-",
	"x-goog-authenticated-", "x-goog-iap-", "x-http-method", "x-lighttpd-", "x-method", "x-middleware-",
	"x-ms-client-principal", "x-ms-token-", "x-nextjs-", "x-original-", "x-pomerium-", "x-remote-", "x-sendfile",
	"x-ssl-", "x-user-", "x-vercel-forwarded-", "x-vercel-ip-",
}

// hasWithheldSuffix reports whether the name ends like those by which proxies of any vendor name the sender's address:
// X-Cluster-Client-IP, X-Original-Forwarded-For, X-Originating-IP.
func hasWithheldSuffix(name string) bool {
	return strings.HasSuffix(name, "-ip") &&
		(strings.HasSuffix(name, "-client-ip") || strings.HasSuffix(name, "-originating-ip")) ||
		strings.HasSuffix(name, "forwarded-for")
}
