// Package role says which part of the gateway's work a node does. Nodes of different roles share a database, and one
// program has the code of all.
package role

// Role is the role of a node.
type Role string

// The roles. A node of the role All does everything, one of the role API what requests ask for, and one of the role
// Worker what happens without a request: it sends deliveries, and removes what has expired.
const (
	All    Role = "all"
	API    Role = "api"
	Worker Role = "worker"
)

// Part is the part of the work that a service or a job belongs to.
type Part int

const (
	// EveryNode is what each node needs, of any role.
	EveryNode Part = iota
	// Serving is what belongs to requests: nodes that serve none have nothing to do for it.
	Serving
	// Working is what nodes that serve requests leave to workers. It needs no request, and any worker can do it.
	Working
)

// Does reports whether nodes of the role do that part of the work. The zero Role does everything.
func (r Role) Does(p Part) bool {
	switch p {
	case Serving:
		return r != Worker
	case Working:
		return r != API
	case EveryNode:
	}
	return true
}
