package access

import (
	"strings"
	"unicode"

	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/id"
)

// Client is the origin of a request that has no principal yet. Sessions show it, and failed sign-ins are counted by it.
type Client struct {
	IP        string
	UserAgent string
	RequestID string
}

// maxAgentBytes bounds how much of a User-Agent header is kept.
const maxAgentBytes = 256

// Agent returns the User-Agent header as a line of text that both engines can store.
func (c Client) Agent() string {
	s := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(c.UserAgent, ""))
	if len(s) > maxAgentBytes {
		s = strings.ToValidUTF8(s[:maxAgentBytes], "")
	}
	return s
}

// Origin returns the address in a form that a client cannot vary; see clientaddr.HostNetwork. It is empty if IP is not
// an address.
func (c Client) Origin() string {
	ip, _ := clientaddr.Parse(c.IP)
	return clientaddr.HostNetwork(ip)
}

// User returns the user as the principal of a request that signs them in, refreshes their session or signs them out.
func (c Client) User(userID, email string, team id.Team) Principal {
	return Principal{Kind: KindUser, ID: userID, Name: email, Team: team, IP: c.IP, RequestID: c.RequestID}
}
