// Package comparison compares the actions of a definition with a published description of the provider's API. See
// README.md.
package comparison

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
)

// Difference is where an action is not as the document has it.
type Difference struct {
	// Field is a path into the definition, such as "actions.inline.create_issue.input.title".
	Field   string
	Message string
}

// Compare returns the differences between the actions of a provider and a document, in the order of the actions. The
// error is that of reading the document.
func Compare(p *registry.Provider, d *documents.Document) ([]Difference, error) {
	there, err := read(d)
	if err != nil {
		return nil, err
	}
	if len(p.Actions) == 0 {
		return []Difference{{"actions", "has no actions that could be compared with the document"}}, nil
	}
	c := comparer{there: there, engine: p.Outbound, requests: []outbound.Request{p.Definition.Outbound.Request}}
	for _, base := range c.engine.BaseURLs() {
		c.addPrefix(pathOf(base))
	}
	for _, m := range c.engine.Modes() {
		for _, base := range m.BaseURLs {
			c.addPrefix(pathOf(base))
		}
	}
	for i := range p.Definition.Outbound.Auth {
		c.requests = append(c.requests, p.Definition.Outbound.Auth[i].Request)
	}
	for _, a := range p.Actions {
		c.action(a)
	}
	return c.found, nil
}

type comparer struct {
	there  *contents
	engine *outbound.Engine
	// requests are what all requests have.
	requests []outbound.Request
	prefixes []string
	found    []Difference
}

func (c *comparer) addPrefix(prefix string) {
	if !slices.Contains(c.prefixes, prefix) {
		c.prefixes = append(c.prefixes, prefix)
	}
}

func (c *comparer) add(field, format string, args ...any) {
	c.found = append(c.found, Difference{field, fmt.Sprintf(format, args...)})
}

// action compares one action.
func (c *comparer) action(a *actions.Action) {
	field := "actions.inline." + a.Name
	if a.Body.GraphQL != "" || c.there.graphql {
		c.graphql(field, a)
		return
	}
	prefixes := c.prefixes
	if a.BaseURL != "" {
		prefixes = append([]string{pathOf(a.BaseURL)}, prefixes...)
	}
	o, methods := c.there.find(a, prefixes)
	switch {
	case o == nil && len(methods) > 0:
		c.add(field, "is %s %s, which is %s in the document", a.Method, a.Path, strings.Join(methods, ", "))
		return
	case o == nil:
		c.add(field, "is %s %s, which the document does not have", a.Method, a.Path)
		return
	case o.Action == nil:
		c.add(field, "cannot be compared: the document's operation cannot be read: %s", o.Left.Error())
		return
	}
	c.common(field, a, o.Action)
	ours, err := readSchema(a.Input)
	if err != nil {
		c.add(field, "has an input that cannot be compared: %s", err)
		return
	}
	theirs, err := readSchema(o.Action.Input)
	if err != nil {
		c.add(field, "cannot be compared: the document's operation has no valid schema: %s", err)
		return
	}
	p := pair{c: c, field: field, ours: ours, theirs: theirs, a: a, of: o.Action, names: sameNames(a.Path, o.Action.Path)}
	p.inputs()
	p.needed()
}

// common compares what does not depend on inputs.
func (c *comparer) common(field string, a, of *actions.Action) {
	if of.Deprecated && !a.Deprecated {
		c.add(field, "is deprecated in the document, and here it is not")
	}
	var there []string
	for _, list := range of.Scopes {
		for _, scope := range list {
			if !slices.Contains(there, scope) {
				there = append(there, scope)
			}
		}
	}
	if len(there) == 0 {
		return
	}
	for i, list := range a.Scopes {
		for _, scope := range list {
			if !slices.Contains(there, scope) {
				c.add(fmt.Sprintf("%s.scopes[%d]", field, i), "has %s, and the document has %s", scope, strings.Join(there, ", "))
			}
		}
	}
}

// pair is an action and the operation of the document that it is.
type pair struct {
	c            *comparer
	field        string
	a, of        *actions.Action
	ours, theirs *schema
	// names are those of the document's path, by those of the action's.
	names map[string]string
}

// inputs compares each input with what the document has at its place.
func (p *pair) inputs() {
	for i := range p.a.Parameters {
		in := &p.a.Parameters[i]
		field, own := p.field+".input."+in.Property, p.ours.Properties[in.Property]
		if own == nil {
			own = &schema{}
		}
		p.input(field, in, own)
	}
}

func (p *pair) input(field string, in *actions.Parameter, own *schema) {
	switch in.Place {
	case actions.InPath:
		if there := p.at(actions.InPath, p.names[in.Name]); there != nil {
			p.values(field, own, there, true)
		}
	case actions.AsBody:
		p.wholeBody(field, own)
	case actions.InBody:
		if there := p.member(in.Name); there != nil {
			p.values(field, own, there, false)
		} else if !p.hasOpenBody() {
			p.missing(field, in)
		}
	case actions.InQuery, actions.InHeader:
		if isMembers(in, own) {
			return // each member has a name of its own, which a caller chooses
		}
		switch there := p.at(in.Place, in.Name); {
		case there != nil:
			p.values(field, own, there, true)
		case !p.hasParts(in):
			p.missing(field, in)
		}
	}
}

// isMembers reports whether an input is an object whose members are headers or parameters of the query.
func isMembers(in *actions.Parameter, own *schema) bool {
	return slices.Contains(own.Type, "object") && !in.JSON && in.Style != "deepObject"
}

// hasParts reports whether the document describes the parts of an input one by one: created[gte], or expand[].
func (p *pair) hasParts(in *actions.Parameter) bool {
	return slices.ContainsFunc(p.of.Parameters, func(other actions.Parameter) bool {
		return other.Place == in.Place && strings.HasPrefix(other.Name, in.Name+"[")
	})
}

// missing reports an input that the document does not have at its place.
func (p *pair) missing(field string, in *actions.Parameter) {
	for i := range p.of.Parameters {
		if other := &p.of.Parameters[i]; other.Name == in.Name && other.Place != in.Place {
			p.c.add(field, "is in the %s, and the document has %s in the %s", in.Place, in.Name, other.Place)
			return
		}
	}
	p.c.add(field, "is %s in the %s, which the document does not have", in.Name, in.Place)
}

// at returns what the document says about a parameter; nil if it has none.
func (p *pair) at(place actions.Place, name string) *schema {
	for i := range p.of.Parameters {
		other := &p.of.Parameters[i]
		if other.Place == place && sameName(place, other.Name, name) {
			if s := p.theirs.Properties[other.Property]; s != nil {
				return s
			}
			return &schema{}
		}
	}
	return nil
}

func sameName(place actions.Place, a, b string) bool {
	return a == b || place == actions.InHeader && strings.EqualFold(a, b)
}

// member returns what the document says about a member of the body; nil if it has none.
func (p *pair) member(name string) *schema {
	if s := p.at(actions.InBody, name); s != nil {
		return s
	}
	whole := p.whole()
	if whole == nil {
		return nil
	}
	members, _ := p.theirs.members(whole)
	return members[name]
}

// whole returns what the document says about the body as a whole; nil if it describes members, or no body.
func (p *pair) whole() *schema {
	for i := range p.of.Parameters {
		if p.of.Parameters[i].Place == actions.AsBody {
			return p.at(actions.AsBody, p.of.Parameters[i].Name)
		}
	}
	return nil
}

// hasOpenBody reports whether the document leaves open which members a body has.
func (p *pair) hasOpenBody() bool {
	whole := p.whole()
	if whole == nil {
		return false
	}
	_, open := p.theirs.members(whole)
	return open
}

// wholeBody compares an input that is the body as a whole.
func (p *pair) wholeBody(field string, own *schema) {
	if whole := p.whole(); whole != nil {
		p.values(field, own, whole, false)
		return
	}
	all := &schema{Type: []string{"object"}, Properties: map[string]*schema{}}
	for i := range p.of.Parameters {
		if other := &p.of.Parameters[i]; other.Place == actions.InBody {
			all.Properties[other.Name] = p.theirs.Properties[other.Property]
		}
	}
	if len(all.Properties) == 0 {
		p.c.add(field, "is the body, which the document does not have")
		return
	}
	p.values(field, own, all, false)
}

// needed compares what the document requires.
func (p *pair) needed() {
	for _, property := range p.theirs.Required {
		i := slices.IndexFunc(p.of.Parameters, func(in actions.Parameter) bool { return in.Property == property })
		if i < 0 {
			continue
		}
		other := &p.of.Parameters[i]
		if other.Place == actions.InPath || p.setsItself(other) {
			continue
		}
		own := slices.IndexFunc(p.a.Parameters, func(in actions.Parameter) bool {
			return in.Place == other.Place && sameName(in.Place, in.Name, other.Name) || in.Place == actions.AsBody &&
				(other.Place == actions.InBody || other.Place == actions.AsBody) || other.Place == actions.AsBody &&
				in.Place == actions.InBody
		})
		switch {
		case own < 0 && other.Place == actions.AsBody:
			p.c.add(p.field, "has no body, which the document requires")
		case own < 0:
			p.c.add(p.field, "does not have %s in the %s, which the document requires", other.Name, other.Place)
		case p.a.Parameters[own].Place == other.Place && !slices.Contains(p.ours.Required, p.a.Parameters[own].Property):
			p.c.add(p.field+".input."+p.a.Parameters[own].Property, "is not required, and in the document it is")
		}
	}
}

// carriers are names of parameters with credentials, which some documents list among the others.
func carriers() []string {
	return []string{"token", "access_token", "api_key", "apikey", "auth_token", "oauth_token"}
}

// setsItself reports whether the definition sets a parameter, or the credentials of a connection do.
func (p *pair) setsItself(in *actions.Parameter) bool {
	set := func(names map[string]string) bool {
		for name := range names {
			if sameName(in.Place, name, in.Name) {
				return true
			}
		}
		return false
	}
	if slices.Contains(carriers(), strings.ToLower(in.Name)) && in.Place != actions.InBody {
		return true
	}
	switch in.Place {
	case actions.InQuery:
		return !outbound.AcceptsQuery(p.c.engine, in.Name) ||
			slices.ContainsFunc(p.c.requests, func(r outbound.Request) bool { return set(r.Query) })
	case actions.InHeader:
		return !outbound.AcceptsHeader(p.c.engine, in.Name) ||
			slices.ContainsFunc(p.c.requests, func(r outbound.Request) bool { return set(r.Headers) })
	default:
		return false
	}
}
