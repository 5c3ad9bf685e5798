package declared

import (
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// Rules are what a definition says about all calls to its provider, so that actions that are declared elsewhere follow
// it, too. Nil says nothing. It is immutable.
type Rules struct {
	pagination  *actions.Pagination
	idempotency *actions.Idempotency
	// keyed are the methods of the calls with a key.
	keyed []string
	rules []rule
}

// rule is a Rule that was checked.
type rule struct {
	methods, actions []string
	// path are the segments; nil for any path.
	path   []string
	stated risk.Declared
}

// Complete gives an action that is declared elsewhere what the definition says about it: how its list continues and how
// its calls are recognised, where it does not say so itself, and its risk.
func (r *Rules) Complete(a *actions.Action) {
	if r == nil {
		return
	}
	if a.Pagination == nil && r.pagination != nil && recognised(r.pagination, func(name string) bool {
		return slices.ContainsFunc(a.Parameters, func(p actions.Parameter) bool { return p.Property == name })
	}) {
		p := *r.pagination
		if !slices.ContainsFunc(a.Parameters, func(in actions.Parameter) bool { return in.Property == p.Size }) {
			p.Size, p.MaxSize = "", 0
		}
		a.Pagination = &p
	}
	if a.Idempotency == nil && slices.Contains(r.keyed, a.Method) {
		a.Idempotency = r.idempotency
	}
	a.Call.Definition = r.Stated(a.Method, a.Path, "")
}

// Stated returns what the definition states about the risk of a call; nil for nothing. The path is requested, or a
// template. The action is the name of one of the definition's own; empty for another call.
func (r *Rules) Stated(method, path, action string) *risk.Declared {
	if r == nil {
		return nil
	}
	for i := range r.rules {
		if r.rules[i].matches(method, path, action) {
			d := r.rules[i].stated
			return &d
		}
	}
	return nil
}

func (r *rule) matches(method, path, action string) bool {
	if r.methods != nil && !slices.Contains(r.methods, method) || r.actions != nil && !slices.Contains(r.actions, action) {
		return false
	}
	if r.path == nil {
		return true
	}
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	for i, want := range r.path {
		switch {
		case want == "**":
			return true
		case i >= len(segments):
			return false
		case want != "*" && want != segments[i]:
			return false
		}
	}
	return len(segments) == len(r.path)
}

// compileRisks checks the rules.
func (c *compiler) compileRisks(d *Risks) {
	if d == nil {
		return
	}
	if len(d.Rules) == 0 {
		c.add("risk.rules", "is empty")
	}
	for i := range d.Rules {
		field, in := at("risk.rules", i), &d.Rules[i]
		out := rule{methods: in.Match.Method, actions: in.Match.Action}
		for n, method := range in.Match.Method {
			if !slices.Contains(methods(), method) {
				c.add(entry(field+".match.method", n, len(in.Match.Method)), "must be one of %s", strings.Join(methods(), ", "))
			}
		}
		for n, name := range in.Match.Action {
			if _, found := c.actions.Inline.byName[name]; !found {
				c.add(entry(field+".match.action", n, len(in.Match.Action)), "is not one of actions.inline")
			}
		}
		if in.Match.Path != "" {
			out.path = c.pathPattern(field+".match.path", in.Match.Path)
		}
		if out.methods == nil && out.actions == nil && in.Match.Path == "" {
			c.add(field+".match", "must name a method, a path or an action")
		}
		c.checkStated(field, &in.Stated)
		out.stated = in.declared()
		if wrong := out.stated.Contradiction(); wrong != "" {
			c.add(field, "contradicts itself: %s", wrong)
		}
		c.rules = append(c.rules, out)
	}
}

// entry names an entry of what may be one text.
func entry(field string, i, count int) string {
	if count == 1 {
		return field
	}
	return at(field, i)
}

// pathPattern reads the path of a rule.
func (c *compiler) pathPattern(field, path string) []string {
	body, rest := strings.CutSuffix(path, "/**")
	if checked := strings.ReplaceAll(body, "*", "x"); !rest || body != "" {
		if wrong := checkPath(checked); wrong != "" {
			c.add(field, "%s", wrong)
			return nil
		}
	}
	segments := strings.Split(body, "/")
	for i, segment := range segments {
		switch {
		case strings.Contains(segment, "*") && segment != "*":
			c.add(field, "has * in a segment that has more, or ** before its end")
		case strings.Contains(segment, "{"):
			if unnamed(segment) != "{}" {
				c.add(field, "has a name in a segment that has more")
			}
			segments[i] = "*"
		}
	}
	if rest {
		segments = append(segments, "**")
	}
	return segments
}

func (s *Stated) declared() risk.Declared {
	return risk.Declared{Level: s.Level, Operation: s.Operation, Flags: s.Flags, Reason: s.Reason}
}

// checkStated checks the values of a statement.
func (c *compiler) checkStated(field string, s *Stated) {
	if s.Level != "" && !s.Level.Valid() {
		c.add(field+".level", "must be one of %s", joined(risk.Levels()))
	}
	if s.Operation != "" && !slices.Contains(risk.Operations(), s.Operation) {
		c.add(field+".operation", "must be one of %s", joined(risk.Operations()))
	}
	for i, flag := range s.Flags {
		if !flag.Valid() || slices.Index(s.Flags, flag) != i {
			c.add(at(field+".flags", i), "must be one of %s, and not be listed twice", joined(risk.Flags()))
		}
	}
	if s.Reason != "" && !isLine(s.Reason, maxReason) {
		c.add(field+".reason", "must be one line of at most %d characters without spaces around it", maxReason)
	}
	if s.Level == "" && s.Operation == "" && len(s.Flags) == 0 {
		c.add(field, "states no level, operation or flags")
	}
}

// maxReason is the length of the longest reason, in characters.
const maxReason = 200

// stated is what an action states about its risk, completed by the rules.
func (c *compiler) stated(field, name string, a *Action) *risk.Declared {
	ruled := c.Stated(a.Method, a.Path, name)
	if a.Risk == nil && ruled == nil {
		return nil
	}
	out := risk.Declared{}
	if a.Risk != nil {
		c.checkStated(field, a.Risk)
		out = a.Risk.declared()
	}
	if ruled != nil {
		if out.Level == "" {
			out.Level = ruled.Level
		}
		if out.Operation == "" {
			out.Operation = ruled.Operation
		}
		if out.Reason == "" {
			out.Reason = ruled.Reason
		}
		flags := slices.Clone(out.Flags)
		for _, flag := range ruled.Flags {
			if !slices.Contains(flags, flag) {
				flags = append(flags, flag)
			}
		}
		out.Flags = flags
	}
	checked := out
	if checked.Operation == "" && a.Method == http.MethodDelete {
		checked.Operation = risk.Delete
	}
	if wrong := checked.Contradiction(); wrong != "" {
		c.add(field, "contradicts itself: %s", wrong)
	}
	return &out
}
