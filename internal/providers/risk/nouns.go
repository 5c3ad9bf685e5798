package risk

import (
	"net/http"
	"slices"
)

// addNouns raises a call that makes a change by what it is about.
func (s *speech) addNouns(r *Risk) {
	verbs, nouns := s.verbs(), s.nouns()
	if w, found := firstOf(&pretends, verbs); found {
		r.Reasons = append(r.Reasons, quoted(w)+" in its name or path only pretends.")
		return
	}
	s.addMoney(r, verbs, nouns)
	s.addBulk(r)
	if s.isMark(r, verbs) {
		return
	}
	s.addAccess(r, verbs, nouns)
	if w, found := stored.in(nouns); found && r.Operation != Delete &&
		!containsAny(verbs, "fire", "test", "ping", "redeliver") {
		r.raise(High, r.Operation, 0.6, quoted(w)+" in its name or path is trusted by others, or says where data goes.")
	}
	if w, found := codes.in(nouns); found && r.Operation != Delete && !slices.Contains(r.Flags, MovesMoney) {
		level := High
		if containsAny(verbs, "approve", "retry", "restart") {
			level = Critical
		}
		r.raise(level, r.Operation, 0.6, quoted(w)+" in its name or path may run code.", RunsCode)
	}
	if w, found := announced.in(nouns); found && r.Operation == Create {
		r.raise(High, r.Operation, 0.7, quoted(w)+" in its name or path is read by people.", NotifiesPeople)
	}
}

func firstOf(c *class, verbs []string) (string, bool) {
	i := slices.IndexFunc(verbs, c.is)
	if i < 0 {
		return "", false
	}
	return verbs[i], true
}

// isMark reports whether only a mark or a text changes.
func (s *speech) isMark(r *Risk, verbs []string) bool {
	if containsAny(verbs, "tag", "untag", "star", "unstar", "like", "unlike", "follow", "unfollow", "pin", "unpin",
		"rename") {
		return true
	}
	for _, about := range [][]string{s.name.rest, s.route.rest, s.route.object} {
		if len(about) == 0 {
			continue
		}
		_, mark := marks.in(lastOf(about))
		_, text := texts.in(lastOf(about))
		return mark || text && r.Operation == Update
	}
	return false
}

// addMoney raises a call that moves money, or is about what is paid for.
func (s *speech) addMoney(r *Risk, verbs, nouns []string) {
	if !s.route.parameters {
		nouns = slices.Concat(s.route.way, nouns)
	}
	nouns, verbs = unpaid(nouns), s.moving(verbs, nouns)
	verb, isPaying := firstOf(&pays, verbs)
	moved, isMoney := money.in(nouns)
	bought, isPaid := paid.in(nouns)
	bill := singular(bought) == "subscription"
	if _, found := watched.in(slices.Concat(s.route.way, s.words)); found && bill {
		isPaid = false
	}
	way, inWay := money.in(unpaid(s.route.way))
	_, set := settings.in(nouns)
	_, things := accounts.in(nouns)
	switch {
	case isMoney && !set:
		r.raise(Critical, r.Operation, 0.8, quoted(moved)+" in its name or path moves money.", MovesMoney)
	case isPaying && isPaid:
		r.raise(Critical, r.Operation, 0.7, quoted(verb)+" and "+quoted(bought)+" in its name or path move money.",
			MovesMoney)
	case containsAny(verbs, "pay", "refund", "withdraw", "disburse", "purchase", "buy", "charge"),
		containsAny(verbs, "transfer") && (things || len(nouns) == 0):
		r.raise(Critical, r.Operation, 0.8, quoted(verb)+" in its name or path moves money.", MovesMoney)
	case isMoney:
		r.raise(High, r.Operation, 0.6, quoted(moved)+" in its name or path concerns money.")
	case isPaid && (r.Operation == Create || r.Operation == Delete && bill):
		r.raise(High, r.Operation, 0.6, quoted(bought)+" in its name or path may move money.", MovesMoney)
	case isPaid:
		r.raise(High, r.Operation, 0.6, quoted(bought)+" in its name or path concerns money.")
	case inWay && isPaying:
		r.raise(Critical, r.Operation, 0.6, quoted(verb)+" and "+quoted(way)+" in its name or path move money.", MovesMoney)
	case inWay:
		r.raise(High, r.Operation, 0.5, quoted(way)+" in its path may mean money.")
	}
}

// unpaid leaves out words for money that mean something else by the word after them: a checkout of a source, and the
// transfer of what is in progress.
func unpaid(nouns []string) (out []string) {
	for i, w := range nouns {
		if i+1 == len(nouns) || (w != "checkout" || !beneath.has(nouns[i+1])) &&
			(w != "transfer" || !running.has(nouns[i+1])) {
			out = append(out, w)
		}
	}
	return out
}

// moving leaves out “transfer” from verbs if what it continues elsewhere is in progress, such as a call, and no account
// is named as well.
func (s *speech) moving(verbs, nouns []string) []string {
	_, found := running.in(nouns)
	if _, account := accounts.in(nouns); !found || account {
		return verbs
	}
	return slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == "transfer" })
}

// addBulk raises a call that concerns many things.
func (s *speech) addBulk(r *Risk) {
	w, found := bulks.in(slices.Concat(s.words, s.route.static))
	if !found && s.method == http.MethodDelete && !s.route.last && isPlural(s.route.object) &&
		(s.name.verb == "delete" && isPlural(s.name.rest) || slices.Contains(s.words, "collection")) {
		w, found = s.route.object[len(s.route.object)-1], true
	}
	if !found {
		return
	}
	level := r.Level
	if r.Operation == Delete && r.Level != Medium {
		level = Critical
	}
	r.raise(level, r.Operation, r.Confidence, quoted(w)+" in its name or path concerns many things in one call.", Bulk)
}

func isPlural(words []string) bool {
	return len(words) > 0 && singular(words[len(words)-1]) != words[len(words)-1]
}

// addAccess raises a call that changes who has access or to whom something belongs.
func (s *speech) addAccess(r *Risk, verbs, nouns []string) {
	transferred := containsAny(s.moving(verbs, nouns), "transfer") && !slices.Contains(r.Flags, MovesMoney)
	w, found := owners.in(slices.Concat(s.route.rest, s.name.rest))
	if !found {
		w, found = owners.in(lastOf(s.route.object))
	}
	if r.Operation != Delete && (found || transferred) {
		if transferred {
			w = "transfer"
		}
		r.raise(Critical, r.Operation, 0.8, quoted(w)+" in its name or path changes to whom something belongs.",
			ChangesAccess)
	}
	if w, found := access.in(nouns); found && (r.Operation != Create || w != "private" && w != "public") {
		r.raise(High, r.Operation, 0.7, quoted(w)+" in its name or path changes who has access.", ChangesAccess)
	} else if containsAny(verbs, "invite", "grant", "share") {
		r.raise(High, r.Operation, 0.7, "It changes who has access.", ChangesAccess)
	} else if (slices.Equal(s.route.object, []string{"session"}) || slices.Equal(s.route.object, []string{"sessions"})) &&
		!slices.Contains(r.Flags, MovesMoney) { // that of a checkout is none
		r.raise(High, r.Operation, 0.7, "It begins or ends sessions.", ChangesAccess)
	}
	s.addSignIn(r)
	if _, found := relations.in(lastOf(s.route.object)); found && s.method == http.MethodDelete {
		r.Flags = slices.DeleteFunc(r.Flags, func(f Flag) bool { return f == Destructive })
	}
}

// addSignIn raises a call that makes a user, or changes how a user signs in.
func (s *speech) addSignIn(r *Risk) {
	about := s.route.object
	if w, found := lastNoun(&holders, about); found && r.Operation == Create {
		r.raise(High, r.Operation, 0.6, "It lets a "+w+" sign in.", ChangesAccess)
	}
	if w, found := lastNoun(&signIns, about); found && r.Operation == Update && !s.route.last &&
		containsAny(s.route.way, "user", "users", "account", "accounts", "member", "members") {
		r.raise(High, r.Operation, 0.6, quoted(w)+" in its path can decide who signs in.", ChangesAccess)
	}
}

// addSecrets raises a call that changes, hands out or returns a secret.
func (s *speech) addSecrets(r *Risk) {
	if r.Operation == Read {
		s.addSecretRead(r)
		return
	}
	for _, about := range [][]string{s.route.object, s.route.rest, s.name.rest} {
		w, found := lastNoun(&handedOut, about)
		if found && r.Operation == Create && !s.route.last {
			r.raise(Critical, Create, 0.7, "It hands out a "+w+".", ChangesAccess, ReturnsSecrets)
			break
		}
	}
	for _, about := range [][]string{s.route.object, s.route.rest, s.name.rest} {
		if w, found := lastNoun(&passwords, about); found && (r.Operation == Create || r.Operation == Update) {
			r.raise(Critical, r.Operation, 0.7, "It sets a "+w+".", ChangesAccess)
			break
		}
	}
	w, found := secrets.in(slices.Concat(s.route.way, s.name.rest))
	if !found {
		return
	}
	if _, issued := firstOf(&issues, s.verbs()); issued {
		r.raise(Critical, r.Operation, 0.7, "It hands out a "+singular(w)+".", ChangesAccess, ReturnsSecrets)
	}
	r.raise(High, r.Operation, 0.8, "It changes or hands out a "+singular(w)+".", ChangesAccess)
}

// lastNoun returns the noun that words end with, if it is in a class.
func lastNoun(c *class, words []string) (string, bool) {
	n := len(words)
	switch {
	case n > 0 && c.has(words[n-1]):
		return singular(words[n-1]), true
	case n > 1 && c.has(words[n-2]+singular(words[n-1])):
		return words[n-2] + " " + singular(words[n-1]), true
	default:
		return "", false
	}
}

// addSecretRead raises a call that reads secrets. A secret that is only in its way does not count.
func (s *speech) addSecretRead(r *Risk) {
	for _, about := range [][]string{s.route.rest, s.name.rest, s.route.object} {
		if len(about) == 0 {
			continue
		}
		w, found := lastNoun(&secrets, about)
		if !found && s.method == http.MethodPost && slices.Equal(about, []string{"keys"}) {
			w, found = "key", true // keys that anyone may see are read by GET
		}
		switch {
		case found && slices.Contains(about, "public"):
		case found && w == "token" && slices.Contains(s.route.way, "oauth") && s.route.verb == "" && s.name.verb == "":
			r.raise(Critical, Create, 0.6, "It hands out a token.", ReturnsSecrets, ChangesAccess)
		case found:
			r.raise(High, Read, 0.5, "It may return a "+w+".", ReturnsSecrets)
		}
		return
	}
}
