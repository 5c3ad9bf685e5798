package sso

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

// Config configures a Service.
type Config struct {
	DB      *db.DB
	Box     *secretbox.Box
	Clock   clock.Clock
	Members *members.Service
	SignIn  *signin.Service
	// Egress asks identity providers.
	Egress *egress.Client
	// Timeout bounds each exchange with one; 0 means 10 s.
	Timeout time.Duration
	// CallbackURL returns where a provider is to send browsers back to.
	CallbackURL func(providerID string) string
}

// Service is the capability. It is safe for concurrent use.
type Service struct {
	db       *db.DB
	box      *secretbox.Box
	clock    clock.Clock
	members  *members.Service
	signIn   *signin.Service
	peer     peer
	callback func(providerID string) string
	// issuers keeps what issuers publish, by their URL.
	issuers cache.Timed[published]
}

// New returns a Service.
func New(c Config) *Service {
	s := &Service{db: c.DB, box: c.Box, clock: c.Clock, members: c.Members, signIn: c.SignIn,
		peer: peer{client: c.Egress, timeout: cmp.Or(c.Timeout, exchangeTimeout)}, callback: c.CallbackURL}
	s.issuers = cache.Timed[published]{Clock: c.Clock, Load: s.ask, Max: maxCached}
	return s
}

// CallbackURL is where the provider is to send browsers back to: the redirect URI to be registered there.
func (s *Service) CallbackURL(providerID string) string { return s.callback(providerID) }

func errNoProvider() error { return apperr.NotFound("identity provider") }

// violations returns what is wrong with settings, at the locations of their fields.
func (s *Service) violations(settings Settings) []apperr.Detail {
	var v apperr.Violations
	settings.violations(&v, func(raw string) error {
		if refused := s.peer.client.CheckURL(raw); refused != nil {
			return refused
		}
		return nil
	})
	return v.Details()
}

// Create adds a provider to the actor's team. Besides validation_error for settings that break a rule it returns
// privilege_escalation where they give what the actor does not have: a role, or with LinkExisting the accounts of
// others.
func (s *Service) Create(ctx context.Context, actor access.Principal, settings Settings) (Provider, error) {
	if violations := s.violations(settings); violations != nil {
		return Provider{}, apperr.Invalid(violations...)
	}
	now := clock.Millis(s.clock.Now())
	p := Provider{ID: id.New(id.PrefixSSO), Team: actor.Team, Settings: settings, CreatedMillis: now, UpdatedMillis: now}
	if err := s.seal(&p); err != nil {
		return Provider{}, err
	}
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := s.mayTrust(ctx, tx, actor, settings, nil); err != nil {
			return err
		}
		room, err := insertProvider(ctx, tx, p)
		if err != nil {
			return err
		}
		if !room {
			return apperr.New(apperr.CodeSSOProvidersLimit,
				fmt.Sprintf("The team has %d identity providers, which is as many as it may have", MaxProviders))
		}
		return s.record(ctx, tx, actor, "sso_provider.create", nil, &p)
	})
	return p, err
}

// Get returns a provider of the actor's team, or not_found.
func (s *Service) Get(ctx context.Context, actor access.Principal, providerID string) (Provider, error) {
	if !id.Is(id.PrefixSSO, providerID) {
		return Provider{}, errNoProvider()
	}
	p, ok, err := readProviderOf(ctx, s.db.Read(), actor.Team, providerID)
	if err == nil && !ok {
		err = errNoProvider()
	}
	return p, err
}

// List returns a page of the providers of the actor's team. It reads page.Request.Fetch rows, which shows page.Cut
// whether more follow.
func (s *Service) List(ctx context.Context, actor access.Principal, r page.Request) ([]Provider, error) {
	return listProviders(ctx, s.db.Read(), actor.Team, r)
}

// Enabled returns the providers through which members of a team can sign in, newest first.
func (s *Service) Enabled(ctx context.Context, team id.Team) ([]Provider, error) {
	list, err := listProviders(ctx, s.db.Read(), team, page.Request{Limit: MaxProviders})
	return slices.DeleteFunc(list, func(p Provider) bool { return !p.Enabled }), err
}

// Change says what becomes different of a provider.
type Change struct {
	// Apply changes the settings, in which the client secret is empty, without changing what their lists hold.
	Apply func(*Settings)
	// Secret, where it is not nil, replaces the client secret; an empty one removes it.
	Secret *secretbox.Secret
}

// Update changes a provider. It returns the errors of Create and Get. The actor needs the rights to create the provider
// as it was before. Roles that no group maps to any more are revoked immediately. Memberships of groups are known again
// at the next sign-in.
func (s *Service) Update(ctx context.Context, actor access.Principal, providerID string,
	change Change) (Provider, error) {
	if !id.Is(id.PrefixSSO, providerID) {
		return Provider{}, errNoProvider()
	}
	var after Provider
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		before, ok, err := lockProvider(ctx, tx, actor.Team, providerID)
		if err != nil {
			return err
		}
		if !ok {
			return errNoProvider()
		}
		if err := etag.Check(ctx, before.Version()); err != nil {
			return err
		}
		if after, err = s.changed(ctx, tx, actor, before, change); err != nil {
			return err
		}
		if reflect.DeepEqual(before, after) {
			return nil
		}
		after.UpdatedMillis = max(clock.Millis(s.clock.Now()), before.UpdatedMillis+1)
		if err := updateProvider(ctx, tx, before, after); err != nil {
			return err
		}
		if err := s.members.TakeManaged(ctx, tx, actor, providerID, after.everyRole()); err != nil {
			return err
		}
		return s.record(ctx, tx, actor, "sso_provider.update", &before, &after)
	})
	return after, err
}

// changed returns the provider with the change made, when the actor may make it.
func (s *Service) changed(ctx context.Context, tx *sql.Tx, actor access.Principal, before Provider,
	change Change) (Provider, error) {
	after := before
	change.Apply(&after.Settings)
	if change.Secret != nil {
		after.ClientSecret, after.sealedSecret = *change.Secret, nil
	}
	if violations := s.violations(after.Settings); violations != nil {
		return Provider{}, apperr.Invalid(violations...)
	}
	for _, settings := range []Settings{before.Settings, after.Settings} {
		if err := s.mayTrust(ctx, tx, actor, settings, before.RoleMappings); err != nil {
			return Provider{}, err
		}
	}
	// The secret was given to the issuer that it was entered for; no change of the issuer sends it elsewhere.
	if after.Issuer != before.Issuer && after.HasSecret() {
		return Provider{}, apperr.Invalid(apperr.Detail{Location: "client_secret", Rule: "required",
			Message: "must be given again with another issuer"})
	}
	return after, s.seal(&after)
}

// Delete removes a provider with the roles that its groups gave. The links of its users to the issuer stay: they can
// sign in again if the issuer is configured again.
func (s *Service) Delete(ctx context.Context, actor access.Principal, providerID string) error {
	if !id.Is(id.PrefixSSO, providerID) {
		return errNoProvider()
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		p, ok, err := lockProvider(ctx, tx, actor.Team, providerID)
		if err != nil {
			return err
		}
		if !ok {
			return errNoProvider()
		}
		if err := etag.Check(ctx, p.Version()); err != nil {
			return err
		}
		if err := deleteProvider(ctx, tx, actor.Team, providerID); err != nil {
			return err
		}
		if err := s.members.TakeManaged(ctx, tx, actor, providerID, nil); err != nil {
			return err
		}
		return s.record(ctx, tx, actor, "sso_provider.delete", &p, nil)
	})
}

// mayTrust refuses settings that grant rights that the actor does not have in the transaction. The role or environment
// of an existing mapping may be gone.
func (s *Service) mayTrust(ctx context.Context, tx *sql.Tx, actor access.Principal, settings Settings,
	before []RoleMapping) error {
	if settings.LinkExisting {
		// The operator of the provider can sign in as anyone in its domains, owners included.
		err := s.members.CheckHeld(ctx, tx, actor, "", access.Grantable()...)
		if apperr.Is(err, apperr.CodePrivilegeEscalation) {
			return apperr.New(apperr.CodePrivilegeEscalation,
				"Only an owner lets an identity provider sign in as existing users")
		}
		if err != nil {
			return err
		}
	}
	var violations []apperr.Detail
	for i, m := range settings.RoleMappings {
		err := s.members.CheckGivable(ctx, tx, actor, members.GivenRole{Role: m.Role, Environment: m.Environment},
			fmt.Sprintf("role_mappings[%d]", i))
		var invalid *apperr.Error
		switch {
		case err == nil:
		case !apperr.Is(err, apperr.CodeValidation) || !errors.As(err, &invalid):
			return err
		case !slices.Contains(before, m):
			violations = append(violations, invalid.Details...)
		}
	}
	if violations != nil {
		return apperr.Invalid(violations...)
	}
	return nil
}

func (s *Service) seal(p *Provider) error {
	if p.ClientSecret == "" {
		return nil
	}
	sealed, err := s.box.Seal([]byte(p.ClientSecret.Reveal()), secretAD(p.ID))
	if err != nil {
		return fmt.Errorf("seal the secret of identity provider %s: %w", p.ID, err)
	}
	p.sealedSecret, p.ClientSecret = sealed, ""
	return nil
}

func (s *Service) openSecret(p Provider) (string, error) {
	if !p.HasSecret() {
		return "", nil
	}
	b, err := s.box.Open(p.sealedSecret, secretAD(p.ID))
	if err != nil {
		return "", fmt.Errorf("open the secret of identity provider %s: %w", p.ID, err)
	}
	return string(b), nil
}

func (s *Service) record(ctx context.Context, tx *sql.Tx, actor access.Principal, action string, before,
	after *Provider) error {
	target := cmp.Or(after, before)
	return audit.Record(ctx, tx, s.clock.Now(), audit.Event{
		Team: actor.Team, Actor: actor, Action: action, TargetType: "sso_provider", TargetID: target.ID,
		Before: before.state(), After: after.state(),
	})
}

// state is the provider for the audit trail.
func (p *Provider) state() audit.State {
	if p == nil {
		return nil
	}
	secret := audit.Hidden{Value: string(p.sealedSecret)}
	if p.HasSecret() {
		secret.Shown = secretbox.Redacted
	}
	return audit.State{
		"name": p.Name, "issuer": p.Issuer, "client_id": p.ClientID, "client_secret": secret, "scopes": p.Scopes,
		"groups_claim": p.GroupsClaim, "role_mappings": p.RoleMappings, "allowed_domains": p.AllowedDomains,
		"just_in_time": p.JustInTime, "link_existing": p.LinkExisting, "enabled": p.Enabled,
	}
}
