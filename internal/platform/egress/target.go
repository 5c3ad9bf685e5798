package egress

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Codes of TargetError. Do returns them too, in Error.Code.
const (
	// CodeURLInvalid: not an absolute URL (RFC 3986), or one with a part that is not accepted here.
	CodeURLInvalid = "url_invalid"
	// CodeSchemeRefused: the scheme is neither https nor, if the operator allows it, http.
	CodeSchemeRefused = "scheme_refused"
	// CodeUserinfoRefused: the URL contains a user name or password.
	CodeUserinfoRefused = "userinfo_refused"
	// CodeTargetRefused: the address is private, loopback, link-local or otherwise reserved, and not on the allow list.
	CodeTargetRefused = "target_refused"
)

const (
	// maxURLLength limits a target's length in bytes.
	maxURLLength = 2048
	// maxHostLength and maxLabelLength are DNS's limits (RFC 1035 §2.3.4).
	maxHostLength  = 253
	maxLabelLength = 63
	// resolveTimeout limits the lookup of CheckTarget, for which a caller of the API waits.
	resolveTimeout = 3 * time.Second
)

const (
	messageTargetRefused = "The target is a private, loopback, link-local or otherwise reserved address" + allowed
	allowed              = ". The operator can allow it with egress-allow."
)

// TargetError describes why a URL cannot be a target. Message is for the user who entered the URL and quotes no part of
// it.
type TargetError struct {
	Code    string
	Message string
}

// Error returns the message.
func (e *TargetError) Error() string { return e.Message }

// CheckURL checks a target without resolving its name. Every connection checks the address again.
func (c *Client) CheckURL(raw string) *TargetError {
	_, err := c.ParseTarget(raw)
	return err
}

// CheckTarget is CheckURL and a lookup of the name: it refuses a name if any of its addresses is refused. It accepts a
// name that does not resolve, because that may appear later.
func (c *Client) CheckTarget(ctx context.Context, raw string) *TargetError {
	u, terr := c.ParseTarget(raw)
	if terr != nil {
		return terr
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := c.resolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if !c.guard.allows(a) {
			return &TargetError{CodeTargetRefused,
				"The target's name resolves to a private, loopback, link-local or otherwise reserved address" + allowed}
		}
	}
	return nil
}

// ParseTarget is CheckURL and returns the parsed URL, for Request.URL.
func (c *Client) ParseTarget(raw string) (*url.URL, *TargetError) {
	u, terr := parseStrict(raw)
	if terr != nil {
		return nil, terr
	}
	if terr := c.checkParts(u); terr != nil {
		return nil, terr
	}
	if terr := c.checkHost(u.Hostname()); terr != nil {
		return nil, terr
	}
	return u, nil
}

// HostKey returns the normal form of the URL's host and port (RFC 3986 §6.2.2.1 and §6.2.3, RFC 5952): lower case, no
// dot after a full name, short IPv6 addresses, IPv4-mapped addresses as IPv4, no default port. It does not resolve
// names. The URL comes from ParseTarget.
func HostKey(u *url.URL) string {
	written, port := u.Hostname(), u.Port()
	host := strings.ToLower(strings.TrimSuffix(written, "."))
	if strings.Contains(written, ":") {
		if a, err := netip.ParseAddr(written); err == nil {
			host = a.Unmap().String()
		}
	}
	switch {
	case port == "", u.Scheme == "https" && port == "443", u.Scheme == "http" && port == "80":
		return host
	case host == written:
		return u.Host // without an allocation: this runs for every attempt
	default:
		return net.JoinHostPort(host, port)
	}
}

// parseStrict accepts only what every parser reads the same way: the characters of RFC 3986, without the backslashes,
// blanks and control characters after which parsers disagree about where the host ends.
func parseStrict(raw string) (*url.URL, *TargetError) {
	if len(raw) > maxURLLength {
		return nil, &TargetError{CodeURLInvalid, "The URL is longer than 2048 characters."}
	}
	for i := range len(raw) {
		if b := raw[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\\\"<>^`{|}", b) >= 0 {
			return nil, &TargetError{CodeURLInvalid,
				"The URL contains a character that must be percent-encoded, or a name that must be in its ASCII form (xn--…)."}
		}
	}
	if strings.Contains(raw, "#") {
		return nil, &TargetError{CodeURLInvalid, "The URL has a fragment, which is never sent."}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Scheme == "" || u.Host == "" {
		return nil, &TargetError{CodeURLInvalid, "The URL is not an absolute URL such as https://example.com/path."}
	}
	return u, nil
}

// checkParts checks everything but the host's name. It is cheap enough for every request.
func (c *Client) checkParts(u *url.URL) *TargetError {
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return &TargetError{CodeSchemeRefused, "The URL's scheme is not https."}
	case !c.policy.AllowHTTP:
		return &TargetError{CodeSchemeRefused, "Unencrypted http:// targets are not allowed: use https://, " +
			"or set egress-allow-http for the process that checks this."}
	}
	if u.User != nil {
		return &TargetError{CodeUserinfoRefused,
			"The URL contains a user name or password: put credentials into their own setting."}
	}
	if u.Hostname() == "" || u.Opaque != "" {
		return &TargetError{CodeURLInvalid, "The URL has no host."}
	}
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return &TargetError{CodeURLInvalid, "The URL has a colon without a port."}
		}
		return nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
		return &TargetError{CodeURLInvalid, "The URL's port is not between 1 and 65535."}
	}
	return nil
}

// checkHost refuses literal addresses outside the policy, unusual spellings of addresses, and invalid names.
func (c *Client) checkHost(host string) *TargetError {
	if strings.Contains(host, ":") {
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" {
			return &TargetError{CodeURLInvalid, "The URL's host is not an IPv6 address, or it has a zone."}
		}
		return c.checkAddr(a)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return c.checkAddr(a)
	}
	name := strings.TrimSuffix(host, ".")
	if len(name) > maxHostLength || name == "" {
		return &TargetError{CodeURLInvalid, "The URL's host is not a host name."}
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if !isLabel(l) {
			return &TargetError{CodeURLInvalid, "The URL's host is not a host name."}
		}
	}
	// Some resolvers take a name that ends in a number as an IPv4 address (2130706433, 0x7f.1, 0177.0.0.1, 127.1): the
	// WHATWG URL standard's "ends in a number" rule.
	if endsInNumber(labels[len(labels)-1]) {
		return &TargetError{CodeURLInvalid,
			"The URL's host is a number: write an IPv4 address as four decimal numbers, without a dot at its end."}
	}
	// localhost and its subdomains are loopback (RFC 6761 §6.3), for any result of a resolver.
	if last := labels[len(labels)-1]; strings.EqualFold(last, "localhost") {
		return c.checkAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

func (c *Client) checkAddr(a netip.Addr) *TargetError {
	if !c.guard.allows(a) {
		return &TargetError{CodeTargetRefused, messageTargetRefused}
	}
	return nil
}

// isLabel accepts letters, digits, inner hyphens, and the underscore that container networks use in names.
func isLabel(l string) bool {
	if l == "" || len(l) > maxLabelLength || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		b := l[i]
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '-' && b != '_' {
			return false
		}
	}
	return true
}

func endsInNumber(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	if len(label) < 2 || label[0] != '0' || label[1]|0x20 != 'x' {
		return false
	}
	return strings.Trim(label[2:], "0123456789abcdefABCDEF") == ""
}
