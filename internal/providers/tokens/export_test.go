package tokens

import "time"

// SetTimeout gives a Protocol another limit of an exchange, and returns the former one.
func (p *Protocol) SetTimeout(limit time.Duration) time.Duration {
	before := p.timeout
	p.timeout = limit
	return before
}
