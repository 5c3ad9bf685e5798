// Package risk says how much harm a call to a provider can do, and why. See README.md.
package risk

import (
	"slices"
	"strings"

	"sallyport/internal/platform/httpapi/oas"
)

// Level is how much harm a call can do.
type Level string

// The levels, from the least to the most. Unknown is treated as High.
const (
	// Low calls read.
	Low Level = "low"
	// Medium calls make changes that can be undone.
	Medium Level = "medium"
	// Unknown calls are not understood.
	Unknown Level = "unknown"
	// High calls destroy, reach people outside, or change who has access.
	High Level = "high"
	// Critical calls move money, delete in bulk, hand out credentials or ownership, or run code.
	Critical Level = "critical"
)

// Levels returns every level, from the least to the most.
func Levels() []Level { return []Level{Low, Medium, Unknown, High, Critical} }

// Schema returns the schema with the levels, for the API.
func (Level) Schema(oas.Registry) *oas.Schema { return oas.Enum(Levels()) }

// Valid reports whether it is one of the levels.
func (l Level) Valid() bool { return slices.Contains(Levels(), l) }

// Above reports whether a level is higher than another one. Unknown is as high as High.
func (l Level) Above(other Level) bool { return l.rank() > other.rank() }

func (l Level) rank() int {
	switch l {
	case Low:
		return 0
	case Medium:
		return 1
	case Critical:
		return 3
	default:
		return 2
	}
}

// Operation is what a call does with the provider's data.
type Operation string

// The operations. Opaque calls are not understood.
const (
	Read   Operation = "read"
	Create Operation = "create"
	Update Operation = "update"
	Delete Operation = "delete"
	Opaque Operation = "opaque"
)

// Operations returns every operation.
func Operations() []Operation { return []Operation{Read, Create, Update, Delete, Opaque} }

// rank orders operations by what they can destroy.
func (o Operation) rank() int {
	switch o {
	case Read:
		return 0
	case Create, Update:
		return 1
	default:
		return 2
	}
}

// Schema returns the schema with the operations, for the API.
func (Operation) Schema(oas.Registry) *oas.Schema { return oas.Enum(Operations()) }

// Flag is a property of a call that a rule can ask for.
type Flag string

// The flags.
const (
	Destructive    Flag = "destructive"
	Idempotent     Flag = "idempotent"
	NotifiesPeople Flag = "notifies_people"
	MovesMoney     Flag = "moves_money"
	ChangesAccess  Flag = "changes_access"
	ReturnsSecrets Flag = "returns_secrets"
	ReturnsPII     Flag = "returns_pii"
	Bulk           Flag = "bulk"
	RunsCode       Flag = "runs_code"
)

// Flags returns every flag.
func Flags() []Flag {
	return []Flag{Destructive, Idempotent, NotifiesPeople, MovesMoney, ChangesAccess, ReturnsSecrets, ReturnsPII, Bulk,
		RunsCode}
}

// Schema returns the schema with the flags, for the API.
func (Flag) Schema(oas.Registry) *oas.Schema { return oas.Enum(Flags()) }

// Valid reports whether it is one of the flags.
func (f Flag) Valid() bool { return slices.Contains(Flags(), f) }

// Source is what decided a level.
type Source string

// The sources, from the one that wins over all others.
const (
	// FromOperator is an override of a provider configuration.
	FromOperator Source = "operator"
	// FromDefinition is a rule of the provider's definition.
	FromDefinition Source = "definition"
	// FromDocument is an extension in the document that describes the API.
	FromDocument Source = "document"
	// FromScopes are the OAuth scopes that the call needs.
	FromScopes Source = "scopes"
	// FromWords are the method and the words of the call's name and path.
	FromWords Source = "words"
	// FromNothing is that of Unknown.
	FromNothing Source = "nothing"
)

func sources() []Source {
	return []Source{FromOperator, FromDefinition, FromDocument, FromScopes, FromWords, FromNothing}
}

// Schema returns the schema with the sources, for the API.
func (Source) Schema(oas.Registry) *oas.Schema { return oas.Enum(sources()) }

// Risk is what a call can do. Flags are in the order of Flags.
type Risk struct {
	Level     Level
	Operation Operation
	Flags     []Flag
	// Reasons are sentences for people, the one that decided first.
	Reasons []string
	Source  Source
	// Confidence is from 0 to 1: how often calls that look like this one are what they look like.
	Confidence float64
}

// Declared is what someone states about a call. An empty field states nothing.
type Declared struct {
	Level     Level
	Operation Operation
	Flags     []Flag
	// Reason is a sentence for people; empty for one that names the source.
	Reason string
}

// isEmpty reports whether nothing is stated.
func (d *Declared) isEmpty() bool {
	return d == nil || d.Level == "" && d.Operation == "" && len(d.Flags) == 0
}

// Contradiction returns what in a statement cannot be true together; empty for nothing.
func (d *Declared) Contradiction() string {
	if d == nil {
		return ""
	}
	for _, f := range []Flag{Destructive, MovesMoney, ChangesAccess, RunsCode} {
		if (d.Operation == Read || d.Level == Low) && slices.Contains(d.Flags, f) {
			stated := "read"
			if d.Operation != Read {
				stated = "be low"
			}
			return "it is stated to " + stated + ", and as " + strings.ReplaceAll(string(f), "_", " ")
		}
	}
	if d.Level == Low && d.Operation == Delete {
		return "it is stated to be low and to delete"
	}
	return ""
}

// Call describes a call, as far as its document does.
type Call struct {
	// Method is upper-case, Path has names in braces. A query of GraphQL is a GET and a mutation a POST here, although
	// both are sent by POST.
	Method, Path string
	// Writes is true of a call that is declared to make a change, as a mutation of GraphQL is. Its words do not make it
	// one that reads.
	Writes bool
	// Name is the id of the operation, in any spelling; empty for none. Summary is one sentence.
	Name, Summary string
	// Scopes are OAuth scopes that it needs.
	Scopes []string
	// Operator and Definition are what these state; nil for nothing.
	Operator, Definition *Declared
	// Document is what the document of the API states. It can lower a risk only if the document is Trusted.
	Document *Declared
	Trusted  bool
}

// Assess returns the risk of a call. The first statement of operator, definition and document that has a level decides
// it, then scopes, then words. All of them add flags and reasons. Flags raise a level that no statement decides.
func Assess(c *Call) Risk {
	out := c.byWords()
	if scopes, decided := c.byScopes(&out); decided {
		out = combine(scopes, out)
	}
	if !c.Document.isEmpty() {
		out = applyDocument(c, out)
	}
	for _, s := range []struct {
		stated *Declared
		source Source
		words  string
	}{
		{c.Definition, FromDefinition, "The provider's definition"},
		{c.Operator, FromOperator, "The provider configuration"},
	} {
		if !s.stated.isEmpty() {
			out = state(s.stated, s.source, s.words, out)
		}
	}
	out.Flags = ordered(out.Flags)
	return out
}

// least is the level that a call with a flag has at least.
func (f Flag) least() Level {
	switch f {
	case MovesMoney:
		return Critical
	case Destructive, NotifiesPeople, ChangesAccess, ReturnsSecrets, RunsCode:
		return High
	default:
		return Low
	}
}

// state lets a statement decide what it names. Without a level it raises the level to that of its flags.
func state(d *Declared, source Source, words string, before Risk) Risk {
	out := before
	reason := d.Reason
	if reason == "" {
		reason = words + " states it."
	}
	level := d.Level
	for _, f := range d.Flags {
		if d.Level == "" && f.least().Above(before.Level) && (level == "" || f.least().Above(level)) {
			level = f.least()
		}
	}
	if d.Operation != "" {
		out.Operation = d.Operation
	}
	out.Flags = append(slices.Clone(before.Flags), d.Flags...)
	if level == "" {
		out.Reasons = append(slices.Clone(before.Reasons), reason)
		return out
	}
	out.Level, out.Source, out.Confidence = level, source, 1
	out.Reasons = append([]string{reason}, before.Reasons...)
	return out
}

// applyDocument is state for a document, which anyone may have written: unless it is trusted it can only raise.
func applyDocument(c *Call, before Risk) Risk {
	if c.Trusted {
		return state(c.Document, FromDocument, "Its document", before)
	}
	d := *c.Document
	// A call that is idempotent may be sent again, so that this flag lowers.
	d.Flags = slices.DeleteFunc(slices.Clone(d.Flags), func(f Flag) bool { return f == Idempotent })
	if d.Operation != "" && d.Operation.rank() <= before.Operation.rank() {
		d.Operation = ""
	}
	ignored := ""
	if d.Level != "" && !d.Level.Above(before.Level) {
		if before.Level.Above(d.Level) {
			ignored = "Its document states " + string(d.Level) + ", which has no effect, because the document is not trusted."
		}
		d.Level = ""
	}
	out := before
	if !d.isEmpty() {
		out = state(&d, FromDocument, "Its document", before)
	}
	if ignored != "" {
		out.Reasons = append(slices.Clone(out.Reasons), ignored)
	}
	return out
}

// combine lets the first decide the level, and keeps the flags and reasons of both.
func combine(first, second Risk) Risk {
	first.Flags = append(slices.Clone(first.Flags), second.Flags...)
	first.Reasons = append(slices.Clone(first.Reasons), second.Reasons...)
	return first
}

func ordered(flags []Flag) []Flag {
	out := []Flag{}
	for _, f := range Flags() {
		if slices.Contains(flags, f) {
			out = append(out, f)
		}
	}
	return out
}
