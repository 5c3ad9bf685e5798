package identity

import (
	"net/netip"
	"strings"
	"unicode"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
)

// Client is where a request without a principal comes from: what a session shows, and what failed sign-ins are counted
// by.
type Client struct {
	IP        string
	UserAgent string
	RequestID string
}

// maxUserAgentBytes is how much of a User-Agent is kept.
const maxUserAgentBytes = 256

// userAgent is the header as a line of text that both engines store.
func (c Client) userAgent() string {
	s := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(c.UserAgent, ""))
	if len(s) > maxUserAgentBytes {
		s = strings.ToValidUTF8(s[:maxUserAgentBytes], "")
	}
	return s
}

// origin is the address as one that a client cannot change at will: of IPv6 the network of 64 bits, because a host has
// all of it to itself (RFC 4291, section 2.5.4; RFC 8981).
func (c Client) origin() string {
	ip, err := netip.ParseAddr(c.IP)
	if err != nil {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return ""
	}
	return p.String()
}

// actor is the user as the one who acts in a request that signs them in, keeps them in or signs them out.
func (c Client) actor(u User, team id.Team) access.Principal {
	return access.Principal{Kind: access.KindUser, ID: u.ID, Name: u.Email, Team: team, IP: c.IP, RequestID: c.RequestID}
}
