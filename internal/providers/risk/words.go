package risk

import (
	"net/http"
	"slices"
	"strings"
)

// byWords judges by the method, and by the words of path and name. A name can lower a call only if the document is
// trusted that it comes from, because the provider does what the path says.
func (c *Call) byWords() Risk {
	full := c.judge(c.said())
	if c.Trusted {
		return full
	}
	return moreCautious(c.judge(""), full)
}

// said is the id of the operation, or what stands for it: the fragment of its path, which is not sent, or the first
// word of its summary.
func (c *Call) said() string {
	if len(wordsOf(c.Name)) > 0 {
		return c.Name
	}
	if _, fragment, found := strings.Cut(c.Path, "#"); found && fragment != "" {
		return fragment[strings.LastIndex(fragment, "=")+1:]
	}
	first, _, _ := strings.Cut(strings.TrimSpace(c.Summary), " ")
	return first
}

// moreCautious returns the higher of two views of a call, with the flags of both.
func moreCautious(a, b Risk) Risk {
	flags := slices.DeleteFunc(append(slices.Clone(a.Flags), b.Flags...), func(f Flag) bool {
		return f == Idempotent && (!slices.Contains(a.Flags, f) || !slices.Contains(b.Flags, f))
	})
	out := b
	if a.Level.Above(b.Level) {
		out = a
	}
	if a.Operation.rank() > b.Operation.rank() {
		out.Operation = a.Operation
	} else {
		out.Operation = b.Operation
	}
	out.Flags = flags
	return out
}

// speech is what path and name say.
type speech struct {
	method string
	route  route
	// writes is Call.Writes.
	writes bool
	// name is the id as a phrase, last its last word if that is a verb, and words all of its words.
	name  phrase
	last  string
	words []string
	// surely says that the first word of the name is a verb and no noun.
	surely bool
}

// judge judges by method and path, and by a name that is not empty.
func (c *Call) judge(name string) Risk {
	s := speech{method: c.Method, route: routeOf(c.Method, c.Path), writes: c.Writes}
	if name != "" {
		s.name, s.last, s.words = nameOf(c.Method, name, &s.route)
		// An API whose path names an action, as in /#Action=TagRole, names it by a verb.
		s.surely = strings.HasSuffix(c.Path, "="+strings.TrimPrefix(name, c.Method+"_"))
	}
	r := c.byMethod()
	if s.wraps(&r) {
		return r
	}
	s.addVerbs(&r)
	if r.Operation != Read {
		s.addNouns(&r)
	}
	s.addSecrets(&r)
	if _, found := people.in(slices.Concat(s.words, s.route.way)); found {
		r.Flags = append(r.Flags, ReturnsPII)
	}
	return r
}

// wraps reports whether the body of the call names what is called: of GraphQL, or of a batch of any calls. Nothing of
// its name and path says then how much harm it can do.
func (s *speech) wraps(r *Risk) bool {
	if r.Operation == Read || r.Operation == Delete {
		return false
	}
	word, found := s.route.wrapping()
	if !found {
		return false
	}
	*r = Risk{Level: Unknown, Operation: Opaque, Source: FromNothing, Reasons: []string{
		quoted(word) + " at the end of its path takes calls that only its body names."}}
	if word == batch {
		r.Flags = []Flag{Bulk}
	}
	return true
}

// byMethod is what the method alone says.
func (c *Call) byMethod() Risk {
	switch c.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return Risk{Level: Low, Operation: Read, Confidence: 0.95, Source: FromWords, Flags: []Flag{Idempotent},
			Reasons: []string{c.Method + " reads."}}
	case http.MethodDelete:
		return Risk{Level: High, Operation: Delete, Confidence: 0.95, Source: FromWords,
			Flags: []Flag{Idempotent, Destructive}, Reasons: []string{"DELETE destroys something."}}
	case http.MethodPut:
		return Risk{Level: Medium, Operation: Update, Confidence: 0.8, Source: FromWords, Flags: []Flag{Idempotent},
			Reasons: []string{"PUT makes a change."}}
	case http.MethodPatch:
		return Risk{Level: Medium, Operation: Update, Confidence: 0.8, Source: FromWords,
			Reasons: []string{"PATCH makes a change."}}
	case http.MethodPost:
		return Risk{Level: Medium, Operation: Create, Confidence: 0.7, Source: FromWords,
			Reasons: []string{"POST makes a change."}}
	default:
		return Risk{Level: Unknown, Operation: Opaque, Source: FromNothing,
			Reasons: []string{"Its method says nothing about what it does."}}
	}
}

// verbs are the words that can be the verb of the call, the most likely first.
func (s *speech) verbs() (out []string) {
	if s.name.verb != "" && (!alsoNouns.is(s.name.verb) || s.route.verb == "") {
		out = append(out, s.name.verb)
	}
	for _, v := range []string{s.route.verb, s.last, s.name.verb} {
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	for i, w := range s.words {
		joined := i > 0 && (s.words[i-1] == "or" || s.words[i-1] == "and") && changes(w)
		destroy := destroys.is(w) && !alsoNouns.is(w)
		if (joined || destroy) && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// changes reports whether a verb makes a change.
func changes(verb string) bool { return isVerb(verb) && !reads.is(verb) && !maybeReads.is(verb) }

// addVerbs decides what the call does, and how much harm the verb says.
func (s *speech) addVerbs(r *Risk) {
	verbs := s.verbs()
	if r.Operation == Read {
		if verbs = s.changedByGet(); len(verbs) == 0 {
			return
		}
		*r = Risk{Level: Medium, Operation: Update, Confidence: 0.6, Source: FromWords,
			Reasons: []string{quoted(verbs[0]) + " in its name or path makes a change, although its method is " + s.method +
				"."}}
	}
	if s.method == http.MethodPost && s.readByPost(verbs) {
		*r = Risk{Level: Low, Operation: Read, Confidence: 0.6, Source: FromWords, Reasons: []string{
			quoted(verbs[0]) + " in its name or path reads, although its method is " + s.method + "."}}
		return
	}
	if r.Operation != Opaque {
		s.chooseOperation(r, verbs)
	}
	for _, v := range verbs {
		s.addVerb(r, v)
	}
	if w, found := marks.in(lastOf(s.route.object)); found && r.Operation == Delete && r.Level == High {
		r.Level, r.Confidence = Medium, 0.7
		r.Reasons = append([]string{quoted(w) + " in its path is a mark that can be set again."}, r.Reasons...)
		r.Flags = slices.DeleteFunc(r.Flags, func(f Flag) bool { return f == Destructive })
	}
}

// chooseOperation chooses the operation by the first verb. PUT and PATCH update, DELETE deletes.
func (s *speech) chooseOperation(r *Risk, verbs []string) {
	if r.Operation == Delete || s.method == http.MethodPut || s.method == http.MethodPatch {
		return
	}
	switch {
	case len(verbs) == 0:
		if s.route.last {
			r.Operation = Update // a POST to one thing, rather than to a list of them
		}
	case verbs[0] == "add" && slices.Contains(s.name.rest, "to"):
		r.Operation = Update
	case creates.is(verbs[0]), issues.is(verbs[0]), sends.is(verbs[0]), runs.is(verbs[0]):
		r.Operation = Create
	case updates.is(verbs[0]), maybeReads.is(verbs[0]), disables.is(verbs[0]), overwrites.is(verbs[0]):
		r.Operation = Update
	}
}

// addVerb raises by a verb that makes a change.
func (s *speech) addVerb(r *Risk, v string) {
	where := quoted(v) + " in its name or path "
	switch {
	case destroys.is(v):
		r.raise(High, Delete, 0.9, where+"destroys something.", Destructive)
	case overwrites.is(v):
		r.raise(High, Update, 0.8, where+"overwrites something.", Destructive)
	case disables.is(v):
		r.raise(High, Update, 0.8, where+"takes something away or cannot be undone.")
	case runs.is(v):
		if _, found := money.in(s.nouns()); found {
			return
		}
		level := High
		if _, found := codes.in(s.nouns()); found {
			level = Critical
		}
		r.raise(level, r.Operation, 0.7, where+"runs something.", RunsCode)
	case sends.is(v):
		r.raise(High, r.Operation, 0.8, where+"reaches people.", NotifiesPeople)
	}
}

// changedByGet are the verbs that say that a call changes something although its method reads.
func (s *speech) changedByGet() (out []string) {
	spoken := append(slices.Clone(s.words[:min(1, len(s.words))]), s.name.verb)
	if !changes(s.name.verb) || alsoNouns.is(s.name.verb) {
		spoken = append(spoken, s.last)
	}
	for _, v := range spoken {
		if !reads.is(v) && !maybeReads.is(v) {
			continue
		}
		if s.route.dotted && changes(s.route.verb) && !alsoNouns.is(s.route.verb) {
			return []string{s.route.verb}
		}
		return nil
	}
	named := s.surely || slices.Contains([]string{"update", "set", "put"}, s.name.verb) && len(s.name.rest) > 0
	for _, v := range []struct {
		verb   string
		surely bool
	}{{s.name.verb, named}, {s.route.verb, s.route.dotted}, {s.last, false}} {
		if changes(v.verb) && (v.surely || !alsoNouns.is(v.verb)) && !slices.Contains(out, v.verb) {
			out = append(out, v.verb)
		}
	}
	return out
}

// readByPost reports whether the first verb reads, and nothing says that the call makes a change.
func (s *speech) readByPost(verbs []string) bool {
	if s.writes || len(verbs) == 0 || slices.ContainsFunc(verbs, changes) {
		return false
	}
	if reads.is(verbs[0]) {
		return true
	}
	_, dangerous := firstIn(s.nouns(), &money, &paid, &codes, &secrets)
	return !dangerous && (s.name.verb == verbs[0] || !s.route.parameters) &&
		!containsAny(s.route.rest, "in", "out")
}

// nouns are the words that can say what the call is about.
func (s *speech) nouns() []string { return slices.Concat(s.route.object, s.route.rest, s.name.rest) }

// raise raises the level if the other one is higher, and notes why. Unknown stays unless the other one is as high.
func (r *Risk) raise(level Level, op Operation, confidence float64, reason string, flags ...Flag) {
	r.Flags = append(r.Flags, flags...)
	if r.Operation != Opaque && op.rank() > r.Operation.rank() {
		r.Operation = op
	}
	if !level.Above(r.Level) && (r.Level != Unknown || Unknown.Above(level)) {
		r.Reasons = append(r.Reasons, reason)
		return
	}
	r.Level, r.Confidence, r.Source = level, confidence, FromWords
	r.Reasons = append([]string{reason}, r.Reasons...)
}

func quoted(word string) string { return "“" + word + "”" }

// NamesSecret reports whether a name is that of a secret, such as a token. The tokens by which lists are continued are
// none.
func NamesSecret(name string) bool {
	words := wordsOf(name)
	_, secret := secrets.in(words)
	return secret && !containsAny(words, "next", "page", "continuation", "cursor", "sync")
}

func lastOf(words []string) []string { return words[max(0, len(words)-1):] }

func firstIn(words []string, of ...*class) (string, bool) {
	for _, c := range of {
		if w, found := c.in(words); found {
			return w, true
		}
	}
	return "", false
}
