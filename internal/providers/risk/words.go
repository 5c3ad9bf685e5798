package risk

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// wordsOf splits a name into lower-case words: at changes of case, and at everything that is no letter.
func wordsOf(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) ||
			i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

// class is what a word says about a call.
type class struct {
	words []string
	// verb is true of words that count only where a verb stands: first or last in a name, or last in a path.
	verb bool
}

func (c class) in(words []string) (string, bool) {
	for _, w := range words {
		if slices.Contains(c.words, w) || slices.Contains(c.words, singular(w)) {
			return w, true
		}
	}
	return "", false
}

// singular cuts the ending of a plural, as far as the words of the classes need it.
func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies"):
		return strings.TrimSuffix(w, "ies") + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"):
		return strings.TrimSuffix(w, "es")
	case strings.HasSuffix(w, "ss"):
		return w
	default:
		return strings.TrimSuffix(w, "s")
	}
}

func list(text string) []string { return strings.Fields(text) }

// The classes of verbs.
var (
	reads = class{list(`get list read search query find fetch show describe lookup count check validate verify preview
		estimate calculate compute compare download view retrieve browse head exists resolve suggest autocomplete
		analyze detect explain filter aggregate render parse translate convert geocode match quote diff test ping
		lint dryrun simulate inspect`), true}
	creates = class{list(`create add insert new register upload import make generate clone copy fork duplicate start
		open`), true}
	destroys = class{list(`delete remove destroy purge erase drop wipe clear truncate revoke terminate expire void
		uninstall unlink detach disconnect deregister unregister disassociate empty flush reset kill discard`), true}
	disables = class{list(`disable deactivate suspend cancel close archive block ban kick lock merge
		stop abort reject decline unsubscribe restrict overwrite rollback restore`), true}
	bulks = class{list(`batch bulk all multi mass many`), false}
	sends = class{list(`send email mail sms mms publish broadcast tweet dial fax announce blast notify invite
		invitation remind`), false}
	tellsPeople = class{list(`message comment reply post note reaction review mention chat notification`), false}
	money       = class{list(`payment payout refund transfer charge withdrawal disbursement purchase checkout topup
		payroll billing remittance settlement wire ach donation capture pay`), false}
	paid = class{list(`invoice subscription order transaction balance wallet card fund trade quote loan credit
		deposit debit`), false}
	access = class{list(`member membership collaborator permission role grant acl policy access owner admin
		administrator team invitation invite saml sso scim oauth mfa totp session sharing share group`), false}
	secrets = class{list(`token secret password passwd credential passphrase apikey privatekey pat webhooksecret
		signingkey accesskey`), false}
	people = class{list(`user contact customer employee patient person people member profile lead subscriber attendee
		candidate applicant guest account address phone email identity guardian student`), false}
	codes = class{list(`execute exec eval run script deploy deployment dispatch invoke workflow pipeline command shell
		sql job function lambda`), false}
	owners = class{list(`ownership takeover`), false}
)

// byWords judges by the method, and by the words of name, path and summary.
func (c *Call) byWords() Risk {
	name, path := wordsOf(c.Name), c.pathWords()
	if len(name) > 1 && strings.EqualFold(name[0], c.Method) {
		name = name[1:] // ids such as PostRefunds begin with the method
	}
	verbs := verbsOf(name, path)
	if len(name) == 0 {
		if first := wordsOf(c.Summary); len(first) > 0 {
			verbs = append(verbs, first[0])
		}
	}
	all := append(slices.Clone(name), path...)
	r := c.byMethod()
	destroyed, isDestroyed := destroys.in(verbs)
	disabled, isDisabled := disables.in(verbs)
	read, isRead := reads.in(verbs[:min(1, len(verbs))])
	if !isRead {
		read, isRead = reads.in(lastOf(path))
	}
	created, isCreated := creates.in(verbs)
	switch {
	case isDestroyed:
		r.raise(High, Delete, 0.9, quoted(destroyed)+" in its name destroys something.", Destructive)
	case isDisabled:
		r.raise(High, Update, 0.8, quoted(disabled)+" in its name takes something away or cannot be undone.")
		r.Operation = Update
	case r.Operation != Read && r.Level != High && isRead && !c.Writes:
		r = Risk{Level: Low, Operation: Read, Confidence: 0.6, Source: FromWords,
			Reasons: []string{quoted(read) + " in its name reads, although its method is " + c.Method + "."}}
	case r.Operation == Read && isCreated && len(name) > 0 && name[0] == created:
		r.raise(Medium, Create, 0.6, quoted(created)+" in its name makes a change, although its method is "+c.Method+".")
	}
	c.addNouns(&r, all)
	return r
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

// addNouns raises by what the call is about. A call that reads does nothing with it.
func (c *Call) addNouns(r *Risk, all []string) {
	if w, found := secrets.in(all); found && r.Operation != Read {
		r.raise(High, r.Operation, 0.8, "It changes or hands out a "+singular(w)+".", ChangesAccess)
		if r.Operation == Create {
			r.Flags = append(r.Flags, ReturnsSecrets)
		}
	} else if found && secretIsRead(all) {
		r.raise(High, Read, 0.5, "It may return a "+singular(w)+".", ReturnsSecrets)
	}
	if _, found := people.in(all); found {
		r.Flags = append(r.Flags, ReturnsPII)
	}
	if r.Operation == Read {
		return
	}
	if w, found := money.in(all); found {
		r.raise(Critical, r.Operation, 0.8, quoted(w)+" in its name or path moves money.", MovesMoney)
	} else if w, found := paid.in(all); found {
		r.raise(High, r.Operation, 0.6, quoted(w)+" in its name or path may move money.", MovesMoney)
	}
	if w, found := owners.in(all); found {
		r.raise(Critical, r.Operation, 0.8, quoted(w)+" in its name or path changes to whom something belongs.",
			ChangesAccess)
	}
	if w, found := access.in(all); found {
		r.raise(High, r.Operation, 0.7, quoted(w)+" in its name or path changes who has access.", ChangesAccess)
	}
	if w, found := codes.in(all); found {
		r.raise(High, r.Operation, 0.6, quoted(w)+" in its name or path may run code.", RunsCode)
	}
	if w, found := sends.in(all); found {
		r.raise(High, r.Operation, 0.8, quoted(w)+" in its name or path reaches people.", NotifiesPeople)
	} else if w, found := tellsPeople.in(all); found {
		r.raise(Medium, r.Operation, 0.7, quoted(w)+" in its name or path is seen by people.", NotifiesPeople)
	}
	if w, found := bulks.in(all); found {
		level := r.Level
		if r.Operation == Delete {
			level = Critical
		}
		r.raise(level, r.Operation, r.Confidence, quoted(w)+" in its name or path concerns many things in one call.", Bulk)
	}
}

// secretIsRead reports whether a secret is what a reading call is about, rather than something in its way.
func secretIsRead(all []string) bool {
	_, last := secrets.in(lastOf(all))
	return last
}

// NamesSecret reports whether a name is that of a secret, such as a token. The tokens by which lists are continued are
// none.
func NamesSecret(name string) bool {
	words := wordsOf(name)
	_, secret := secrets.in(words)
	return secret && !containsAny(words, "next", "page", "continuation", "cursor", "sync")
}

func lastOf(words []string) []string { return words[max(0, len(words)-1):] }

// verbsOf returns the words that can be the verb of a call: those of its name, the first and the last one before
// others, and the last of its path.
func verbsOf(name, path []string) []string {
	var verbs []string
	if len(name) > 0 {
		verbs = append(verbs, name[0])
		if len(name) > 1 {
			verbs = append(verbs, name[len(name)-1])
			verbs = append(verbs, name[1:len(name)-1]...)
		}
	}
	return append(verbs, lastOf(path)...)
}

// pathWords are the words of a path without its parameters and version.
func (c *Call) pathWords() []string {
	var words []string
	for segment := range strings.SplitSeq(c.Path, "/") {
		before, after, templated := strings.Cut(segment, "{")
		if templated {
			_, after, _ = strings.Cut(after, "}")
			segment = before + " " + after
		}
		if len(segment) > 1 && segment[0] == 'v' && segment[1] >= '0' && segment[1] <= '9' {
			continue
		}
		words = append(words, wordsOf(segment)...)
	}
	return words
}

func quoted(word string) string { return "“" + word + "”" }

// raise raises the level if the other one is higher, and notes why.
func (r *Risk) raise(level Level, op Operation, confidence float64, reason string, flags ...Flag) {
	r.Flags = append(r.Flags, flags...)
	if level.Above(r.Level) || r.Level == Unknown {
		r.Level, r.Confidence, r.Source = level, confidence, FromWords
		r.Reasons = append([]string{reason}, r.Reasons...)
		if op == Delete || r.Operation == Read || r.Operation == Opaque {
			r.Operation = op
		}
		return
	}
	r.Reasons = append(r.Reasons, reason)
}

// byScopes judges by the words of OAuth scopes. It decides nothing where words and scopes contradict each other.
func (c *Call) byScopes(words *Risk) (Risk, bool) {
	if len(c.Scopes) == 0 {
		return Risk{}, false
	}
	read, admin := true, ""
	for _, scope := range c.Scopes {
		w := wordsOf(scope)
		if _, reading := (class{words: list("read readonly view viewer search")}).in(w); !reading ||
			containsAny(w, "write", "manage", "admin", "delete", "edit", "modify", "full") {
			read = false
		}
		if containsAny(w, "admin", "owner") && admin == "" {
			admin = scope
		}
	}
	switch {
	case read && words.Level == Medium && c.Method == http.MethodPost && len(words.Flags) == 0:
		return Risk{Level: Low, Operation: Read, Source: FromScopes, Confidence: 0.8,
			Reasons: []string{"The scopes that it needs permit reading only."}}, true
	case admin != "" && words.Operation != Read && High.Above(words.Level):
		return Risk{Level: High, Operation: words.Operation, Source: FromScopes, Confidence: 0.8,
			Reasons: []string{"It needs the scope " + admin + "."}}, true
	default:
		return Risk{}, false
	}
}

func containsAny(words []string, of ...string) bool {
	return slices.ContainsFunc(of, func(w string) bool { return slices.Contains(words, w) })
}
