package imports

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/actions"
)

// ChangeKind is how a version changes an action.
type ChangeKind string

// The kinds. RiskRaised is of a changed action whose risk is higher than before.
const (
	Added      ChangeKind = "added"
	Changed    ChangeKind = "changed"
	RiskRaised ChangeKind = "risk_raised"
	Removed    ChangeKind = "removed"
)

// Schema returns the schema with the kinds, for the API.
func (ChangeKind) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]ChangeKind{Added, Changed, RiskRaised, Removed})
}

// ActionChange is what an import would change about an action of the catalog.
type ActionChange struct {
	Action string
	Kind   ChangeKind
	// Before is nil for an action that is added, and After for one that is removed.
	Before, After *actions.Summary
}

// Preview is what the activation of an import would change.
type Preview struct {
	// Base is the id of the import that is active; empty if there is none.
	Base string
	// Digest names the preview: it is another one if the import or the active one is.
	Digest string
	// Counts are the actions by kind; those with RiskRaised are not among those with Changed.
	Counts map[ChangeKind]int
	// AccessChanged says that credentials would go elsewhere, or be used in another way. BaseAccess is where they go now.
	AccessChanged bool
	BaseAccess    Access
}

// digestOf names the preview of an import over a base.
func digestOf(m *Import, base string) string {
	sum := sha256.Sum256([]byte(m.ID + " " + m.Outcome.Digest + " " + base))
	return hex.EncodeToString(sum[:16])
}

// compared are an import and the active one of its provider.
type compared struct {
	m, base *Import // base is nil if there is none
	preview Preview
}

func (s *Service) compare(ctx context.Context, env id.Environment, importID string) (*compared, error) {
	m, err := find(ctx, s.cfg.DB.Read(), env, importID, "")
	if err != nil {
		return nil, err
	}
	if !m.HasActions() {
		return nil, errNotReady(&m)
	}
	c := &compared{m: &m, preview: Preview{Counts: map[ChangeKind]int{}}}
	base, found, err := findActive(ctx, s.cfg.DB.Read(), env, m.Slug, "")
	if err != nil {
		return nil, err
	}
	if found && base.ID != m.ID {
		c.base, c.preview.Base, c.preview.BaseAccess = &base, base.ID, base.Outcome.Access
	}
	if m.Status != Active {
		c.preview.AccessChanged = changesAccess(&m, c.base)
	}
	c.preview.Digest = digestOf(&m, c.preview.Base)
	return c, nil
}

// changesAccess reports whether credentials would go elsewhere with an import than with the base, which may be nil.
func changesAccess(m, base *Import) bool {
	switch {
	case m.Extends:
		return false // the definition stays
	case base == nil || base.Extends:
		return true
	default:
		return m.Outcome.Access.Digest != base.Outcome.Access.Digest
	}
}

func errNotReady(m *Import) error {
	message := "The import has not ended"
	if m.Status == Failed || m.Status == Cancelled {
		message = "The import has ended without actions"
	}
	return apperr.New(apperr.CodeImportNotReady, message)
}

// Preview returns an import and what its activation would change.
//
// Errors: not_found; import_not_ready.
func (s *Service) Preview(ctx context.Context, env id.Environment, importID string) (Import, Preview, error) {
	c, err := s.compare(ctx, env, importID)
	if err != nil {
		return Import{}, Preview{}, err
	}
	changes, err := s.changes(ctx, c)
	if err != nil {
		return Import{}, Preview{}, err
	}
	for _, ch := range changes {
		c.preview.Counts[ch.Kind]++
	}
	return *c.m, c.preview, nil
}

// ListChanges returns one page of the actions that the activation of an import would change, in the order of their
// names, and one more if another page follows; of some kinds if any are given.
//
// Errors: not_found; import_not_ready.
func (s *Service) ListChanges(ctx context.Context, env id.Environment, importID string, kinds []ChangeKind,
	p page.Request) ([]ActionChange, error) {
	c, err := s.compare(ctx, env, importID)
	if err != nil {
		return nil, err
	}
	all, err := s.changes(ctx, c)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(ch ActionChange) bool {
		return p.After != "" && (ch.Action == p.After || (ch.Action > p.After) != p.Ascending) ||
			len(kinds) > 0 && !slices.Contains(kinds, ch.Kind)
	})
	if !p.Ascending {
		slices.Reverse(all)
	}
	return all[:min(p.Fetch(), len(all))], nil
}

// changes compares the actions of an import with those of the base, when it is the environment's turn.
func (s *Service) changes(ctx context.Context, c *compared) ([]ActionChange, error) {
	if c.m.Status == Active {
		return nil, nil
	}
	leave, err := s.comparing.Enter(ctx, string(c.m.Environment))
	if err != nil {
		return nil, err //nolint:wrapcheck // an error of the API
	}
	defer leave()
	after, err := s.Index(ctx, c.m.Environment, c.m.ID)
	if err != nil {
		return nil, err
	}
	before := new(actionindex.Index)
	if c.base != nil {
		if before, err = s.Index(ctx, c.base.Environment, c.base.ID); err != nil {
			return nil, err
		}
	}
	return diff(before, after), nil
}

// diff returns what differs between two sets of actions, in the order of their names.
func diff(before, after *actionindex.Index) (out []ActionChange) {
	i, j := 0, 0
	for i < before.Len() || j < after.Len() {
		var old, now *actions.Summary
		if i < before.Len() {
			old = before.Sorted(i)
		}
		if j < after.Len() {
			now = after.Sorted(j)
		}
		var order int
		switch {
		case old == nil:
			order = 1
		case now == nil:
			order = -1
		default:
			order = strings.Compare(old.Name, now.Name)
		}
		switch {
		case order < 0:
			out = append(out, ActionChange{old.Name, Removed, old, nil})
			i++
		case order > 0:
			out = append(out, ActionChange{now.Name, Added, nil, now})
			j++
		default:
			if old.Content != now.Content {
				kind := Changed
				if now.Risk.Level.Above(old.Risk.Level) {
					kind = RiskRaised
				}
				out = append(out, ActionChange{old.Name, kind, old, now})
			}
			i, j = i+1, j+1
		}
	}
	return out
}

// Action returns the action with a number in the index of an import.
func (s *Service) Action(ctx context.Context, env id.Environment, importID string,
	number int) (*actions.Action, error) {
	data, found, err := findPart(ctx, s.cfg.DB.Read(), env, importID, partActions, int64(number/blockActions))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound()
	}
	text, err := s.packer.unpack(data)
	if err != nil {
		return nil, err
	}
	lines := linesOf(text)
	if number%blockActions >= len(lines) {
		return nil, notFound()
	}
	return actions.Decode(lines[number%blockActions]) //nolint:wrapcheck // it says what failed
}

// linesOf returns the lines of a block, each of them an action.
func linesOf(block []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(block, []byte("\n")), []byte("\n"))
}
