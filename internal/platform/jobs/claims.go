package jobs

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync/atomic"
)

// Claims makes the claim ids of one process: each is unique, and its beginning names the node.
type Claims struct {
	node, process string
	n             atomic.Int64
}

// NewClaims returns the claims of a process on the node.
func NewClaims(node string) *Claims {
	return &Claims{node: node, process: strings.ToLower(rand.Text()[:10])}
}

// Next returns a new claim id.
func (c *Claims) Next() string {
	return c.NodePrefix() + c.process + ":" + strconv.FormatInt(c.n.Add(1), 36)
}

// NodePrefix returns the beginning of every claim id of the node, of this process and of those before it.
func (c *Claims) NodePrefix() string { return c.node + ":" }
