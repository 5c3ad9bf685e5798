package declared

import (
	"regexp"
	"strings"
)

// ownHeaders are headers that no input can be: they carry credentials, frame the message, are set by the gateway, or
// have a server do something else than method and path say. Those that end with a hyphen stand for all that begin so.
func ownHeaders() []string {
	return []string{
		"authorization", "cookie", "api-key", "x-api-key", "x-auth-token", "x-access-token", "private-token",
		"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "keep-alive", "te",
		"trailer", "upgrade", "expect", "http2-settings", "accept-encoding", "forwarded", "via", "proxy-", "x-forwarded-",
		"x-sallyport-", "x-real-ip", "x-http-method", "x-http-method-override", "x-method-override", "x-original-url",
		"x-original-method", "x-rewrite-url",
	}
}

// ownParameters are parameters of the query that have a server use another method.
func ownParameters() []string { return []string{"_method", "x-http-method-override"} }

var ownHeader = regexp.MustCompile(`(?i)` + anyOf(ownHeaders()))

func isOwnHeader(name string) bool { return ownHeader.MatchString(name) }

// anyOf returns an expression for names.
func anyOf(names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = regexp.QuoteMeta(name)
		if strings.HasSuffix(name, "-") {
			parts[i] += ".*"
		}
	}
	return "^(?:" + strings.Join(parts, "|") + ")$"
}

// anyCase returns an expression that ignores case without a flag, which ECMAScript does not have within expressions.
func anyCase(expression string) string {
	var out strings.Builder
	for _, r := range expression {
		if r >= 'a' && r <= 'z' {
			out.WriteString("[" + strings.ToUpper(string(r)) + string(r) + "]")
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
