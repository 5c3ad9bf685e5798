package idempotency

import (
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// rights are what a caller could see and do when a request was executed, as far as its response may depend on them. The
// response is returned again only to a caller who still has all of them.
type rights struct {
	// Connections is the text of an API key's bound.
	Connections *string `json:"connections,omitempty"`
	// Team and Environments hold the permissions of a user; for an operation on one environment only those in it.
	Team         []access.Permission                    `json:"team,omitempty"`
	Environments map[id.Environment][]access.Permission `json:"environments,omitempty"`
}

func rightsOf(p access.Principal) (*rights, error) {
	r := &rights{Environments: map[id.Environment][]access.Permission{}}
	switch {
	case p.Kind == access.KindAPIKey:
		text, err := p.Connections.Text()
		if err != nil {
			return nil, err
		}
		r.Connections = &text
	case p.Environment != "":
		r.Environments[p.Environment] = p.Rights.In(p.Environment)
	default:
		r.Team = p.Rights.Team
		for env := range p.Rights.Environments {
			r.Environments[env] = p.Rights.In(env)
		}
	}
	return r, nil
}

// Messages of the errors of a caller who sends a request again with fewer rights than before.
const (
	MessageLostPermissions = "The user has lost permissions since the first request with this Idempotency-Key, and does " +
		"not get its response again; the request took effect once"
	MessageLostGrants = "The API key has lost grants since the first request with this Idempotency-Key, and does not " +
		"get its response again; the request took effect once"
)

// check returns an error unless the caller, who is the one of the request, still has the rights.
func (r *rights) check(p access.Principal) error {
	if r == nil {
		return nil // a request of the previous release, whose key lives for a day
	}
	if p.Kind == access.KindAPIKey {
		return r.checkKey(p)
	}
	_, lost := p.Rights.Missing("", r.Team)
	for env, list := range r.Environments {
		if _, missing := p.Rights.Missing(env, list); missing {
			lost = true
		}
	}
	if lost {
		return apperr.New(apperr.CodeForbidden, MessageLostPermissions)
	}
	return nil
}

func (r *rights) checkKey(p access.Principal) error {
	if r.Connections == nil {
		return errNarrowed()
	}
	before, err := access.ParseBound(*r.Connections)
	if err != nil {
		return err
	}
	if !before.Minus(p.Connections).Empty() {
		return errNarrowed()
	}
	return nil
}

func errNarrowed() error {
	return apperr.New(apperr.CodeGrantDenied, MessageLostGrants)
}
