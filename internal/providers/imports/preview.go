package imports

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
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

// Preview is what the activation of an import would change.
type Preview struct {
	// Base is the id of the import that is active; empty if there is none.
	Base string
	// Digest names the preview: it is another one if the import or the active one is.
	Digest string
	// Counts are the actions by kind; those with RiskRaised are not among those with Changed.
	Counts map[ChangeKind]int
	// Breaking counts the actions on which callers cannot depend any more. It is nil while that is not known: the actions
	// are many, and the next look at the preview goes on comparing them.
	Breaking *int
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
	if c.m.Status == Active {
		c.preview.Breaking = new(int)
		return *c.m, c.preview, nil
	}
	err = s.withChanges(ctx, c, func(x *changes) error {
		for i := range x.all {
			c.preview.Counts[x.all[i].Kind]++
		}
		broken, err := x.broken(ctx)
		if err == nil && broken.complete {
			n := len(broken.names)
			c.preview.Breaking = &n
		}
		return err
	})
	if err != nil {
		return Import{}, Preview{}, err
	}
	return *c.m, c.preview, nil
}

// Action returns the action with a number in the index of an import.
func (s *Service) Action(ctx context.Context, env id.Environment, importID string,
	number int) (*actions.Action, error) {
	lines, err := s.block(ctx, env, importID, number/blockActions)
	if err != nil {
		return nil, err
	}
	return actionIn(lines, number)
}

// block returns the actions of a block, each as it is stored.
func (s *Service) block(ctx context.Context, env id.Environment, importID string, number int) ([][]byte, error) {
	data, found, err := findPart(ctx, s.cfg.DB.Read(), env, importID, partActions, int64(number))
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
	return linesOf(text), nil
}

// actionIn reads the action with a number from its block.
func actionIn(block [][]byte, number int) (*actions.Action, error) {
	if number%blockActions >= len(block) {
		return nil, notFound()
	}
	return actions.Decode(block[number%blockActions]) //nolint:wrapcheck // it says what failed
}

// linesOf returns the lines of a block, each of them an action.
func linesOf(block []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(block, []byte("\n")), []byte("\n"))
}
