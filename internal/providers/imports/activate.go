package imports

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
)

// Activate makes an import the version of its provider that the catalog shows. All of it becomes active in one
// transaction, and the one before stays available. digest names the preview that the caller has seen; it is required if
// credentials would go elsewhere than with the active version. Activating the active one changes nothing.
//
// Errors: not_found; import_not_ready; import_changed if the digest is not that of the present preview, or is missing
// where it is required; slug_taken; imports_limit.
func (s *Service) Activate(ctx context.Context, p access.Principal, importID, digest string) (Import, error) {
	seen, err := find(ctx, s.cfg.DB.Read(), p.Environment, importID, "")
	if err != nil {
		return Import{}, err
	}
	if seen.Trusted && seen.Status != Active && !p.Has(access.CatalogRisk) {
		return Import{}, apperr.New(apperr.CodeForbidden, "The user does not have the permission "+
			string(access.CatalogRisk)+", which trusted documents need")
	}
	if err := s.checkSlug(ctx, p.Environment, &seen.Order); err != nil { // definitions and keys may have come since
		return Import{}, err
	}
	var m Import
	var replaced []string
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		// Activations of an environment wait for each other: two of one provider cannot both replace the same version.
		if err := s.cfg.DB.AdvisoryLock(ctx, tx, db.LockFor(tableName, string(p.Environment))); err != nil {
			return fmt.Errorf("lock the imports of an environment: %w", err)
		}
		var err error
		if m, err = find(ctx, tx, p.Environment, importID, s.cfg.DB.ForUpdate()); err != nil {
			return err
		}
		if !m.HasActions() {
			return errNotReady(&m)
		}
		base, found, err := findActive(ctx, tx, p.Environment, m.Slug, s.cfg.DB.ForUpdate())
		if err != nil {
			return err
		}
		before := (*Import)(nil)
		if found {
			before = &base
		}
		if m.Status == Active {
			return nil
		}
		if err := checkDigest(&m, before, digest); err != nil {
			return err
		}
		if found {
			if base.Extends != m.Extends {
				return apperr.New(apperr.CodeSlugTaken, "Another active import of this provider is of the other kind; delete it "+
					"first")
			}
			next := base
			next.Status, next.UpdatedAt = Replaced, s.now()
			if err := update(ctx, tx, &next); err != nil {
				return err
			}
			if err := s.recordAudit(ctx, tx, p, "replace", &next, auditState(&base), auditState(&next),
				audit.State{"replaced_by": m.ID}); err != nil {
				return err
			}
		}
		if err := requireRoom(ctx, tx, &m, before); err != nil {
			return err
		}
		state, now := auditState(&m), s.now()
		m.Status, m.UpdatedAt, m.ActivatedAt = Active, now, &now
		if err := update(ctx, tx, &m); err != nil {
			return err
		}
		if err := db.Bump(ctx, tx, collection, string(m.Environment)); err != nil {
			return fmt.Errorf("raise the version of the catalog: %w", err)
		}
		if changesAccess(&m, before) {
			if err := s.cfg.OnAccessChange(ctx, tx, m.Environment, m.Slug); err != nil {
				return err
			}
		}
		access := &m.Outcome.Access
		details := audit.State{"digest": digestOf(&m, baseOf(before)), "replaces": nil, "hosts": access.Hosts,
			"token_endpoints": access.TokenEndpoints, "auth_modes": access.AuthModes, "actions": m.Outcome.Actions}
		if found {
			details["replaces"] = base.ID
		}
		if replaced, err = dropReplaced(ctx, tx, m.Environment, m.Slug, keptVersions); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, p, "activate", &m, state, auditState(&m), details)
	})
	if err != nil {
		return Import{}, err
	}
	s.metrics.activations.Inc()
	s.cfg.Definitions.drop(ctx, m.Environment)
	for _, old := range replaced {
		s.forget(ctx, &Import{ID: old, Environment: m.Environment})
	}
	return m, nil
}

// requireRoom returns imports_limit if the environment has no room for another active import in place of the one
// before, which may be nil.
func requireRoom(ctx context.Context, tx *sql.Tx, m, before *Import) error {
	u, err := useOf(ctx, tx, m.Environment)
	switch {
	case err != nil:
		return err
	case before == nil && u.active >= MaxActive:
		return apperr.New(apperr.CodeImportsLimit, fmt.Sprintf("The environment has %d active imports, which is as many as "+
			"it may have; delete some", MaxActive))
	case u.actions+m.Actions > MaxActions: // the one before has given its place already
		return apperr.New(apperr.CodeImportsLimit, fmt.Sprintf("The active imports of the environment would have %d "+
			"actions, and %d are as many as they may have; delete some, or import fewer actions", u.actions+m.Actions,
			MaxActions))
	default:
		return nil
	}
}

// baseOf returns the id of an import that may be nil.
func baseOf(base *Import) string {
	if base == nil {
		return ""
	}
	return base.ID
}

// checkDigest returns import_changed unless the caller has seen what the activation would change, where that matters.
func checkDigest(m, base *Import, digest string) error {
	switch {
	case digest == digestOf(m, baseOf(base)):
		return nil
	case digest != "":
		return apperr.New(apperr.CodeImportChanged, "The present preview has another digest; look at it again")
	case !changesAccess(m, base):
		return nil
	case len(m.Outcome.Access.Hosts) == 0:
		return apperr.New(apperr.CodeImportChanged, seePreview)
	default:
		return apperr.New(apperr.CodeImportChanged, seePreview+": requests with credentials would go to "+hostList(m))
	}
}

const seePreview = "Look at the preview, and activate the import with its digest"

func hostList(m *Import) string {
	const most = 5
	hosts := m.Outcome.Access.Hosts
	switch {
	case len(hosts) == 0 || strings.Contains(strings.Join(hosts, " "), "${"):
		return "the hosts that each connection names"
	case len(hosts) > most:
		return strings.Join(hosts[:most], ", ") + fmt.Sprintf(" and %d more", len(hosts)-most)
	default:
		return strings.Join(hosts, ", ")
	}
}
