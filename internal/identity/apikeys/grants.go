package apikeys

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// GrantViolations returns every rule that a grant breaks, by the names of its fields.
func GrantViolations(g Grant, now time.Time) []apperr.Detail {
	var v apperr.Violations
	grantViolations(&v, func(int) string { return "" }, []Grant{g}, clock.Millis(now))
	return v.Details()
}

// ListGrants returns a page of the grants of a key of the actor's team, one row more than the page when another
// follows. It returns not_found.
func (s *Service) ListGrants(ctx context.Context, actor access.Principal, keyID string,
	r page.Request) ([]Grant, error) {
	if _, err := s.GetKey(ctx, actor, keyID); err != nil {
		return nil, err
	}
	return pageOfGrants(ctx, s.db.Read(), keyID, r)
}

// AddGrant adds a grant to a key of the actor's team and returns it. Requests with the key have it from the next one
// on. It returns not_found, validation_error, and api_key_revoked.
func (s *Service) AddGrant(ctx context.Context, actor access.Principal, keyID string, g Grant) (Grant, error) {
	g.ID = id.New(id.PrefixGrant)
	_, err := s.changeKey(ctx, actor, keyID, "add_grant", func(tx *sql.Tx, actor access.Principal, k Key,
		now time.Time) (Key, bool, audit.State, error) {
		violations := GrantViolations(g, now)
		if violations == nil {
			grants, err := readGrants(ctx, tx, keyID)
			if err != nil {
				return k, false, nil, err
			}
			var v apperr.Violations
			checkGrantCount(&v, "", append(grants, g))
			violations = v.Details()
		}
		switch {
		case violations != nil:
			return k, false, nil, apperr.Invalid(violations...)
		case k.RevokedMillis != nil:
			return k, false, nil, errRevoked()
		}
		if err := checkGrantable(actor, k.Environment, []Grant{g}); err != nil {
			return k, false, nil, err
		}
		err := insertGrants(ctx, s.db, tx, keyID, []Grant{g}, clock.Millis(now))
		return k, true, audit.State{"grant": auditGrant(g)}, err
	})
	return g, err
}

// RemoveGrant removes a grant of a key of the actor's team. It returns not_found, and api_key_revoked.
func (s *Service) RemoveGrant(ctx context.Context, actor access.Principal, keyID, grantID string) error {
	if !id.Is(id.PrefixGrant, grantID) {
		return apperr.NotFound("grant")
	}
	_, err := s.changeKey(ctx, actor, keyID, "remove_grant", func(tx *sql.Tx, actor access.Principal, k Key,
		_ time.Time) (Key, bool, audit.State, error) {
		if k.RevokedMillis != nil {
			return k, false, nil, errRevoked()
		}
		g, ok, err := readGrant(ctx, tx, keyID, grantID)
		if err != nil {
			return k, false, nil, err
		}
		if !ok {
			return k, false, nil, apperr.NotFound("grant")
		}
		if g.Effect != Allow {
			if err := checkOpened(actor, k.Environment, []Grant{g}); err != nil {
				return k, false, nil, err
			}
		}
		return k, true, audit.State{"grant": auditGrant(g)}, deleteGrant(ctx, tx, keyID, grantID)
	})
	return err
}
