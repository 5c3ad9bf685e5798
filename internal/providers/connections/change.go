package connections

import (
	"context"
	"database/sql"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
)

// Change holds the fields of a connection that a caller may write. Objects merge member by member; a null member
// removes its name.
type Change struct {
	// Secret replaces every stored webhook secret. If it is cleared, webhooks are refused until a secret is stored.
	Secret patch.Field[secretbox.Secret]
	// Alias moves the connection to another alias, or to none.
	Alias               patch.Field[string]
	Params              patch.Field[map[string]*string]
	DedupeWindowSeconds patch.Field[int64]
	// The next three have no cleared state: nil keeps.
	RedeliverOnDuplicate *bool
	MaxBodyBytes         *int64
	SameBodyNewID        *SameBody
	Scheme               patch.Field[string]
	URLBase              patch.Field[string]
	SourceCIDRs          patch.Field[[]string]
	RatePerSecond        patch.Field[int64]
	// AuthMode names the entry of the definition's auth that Credentials are for; nil for the one that they fit.
	AuthMode *string
	// Credentials replaces all that are stored. Without any the connection only receives webhooks.
	Credentials patch.Field[Credentials]
	// ConnectionConfig changes the values of the definition's connection_config.
	ConnectionConfig patch.Field[map[string]*string]
	// Untested stores credentials without a test.
	Untested bool
	// Granted says that the provider has just issued the credentials to the gateway. Their test does not count among those
	// of credentials that someone was given, because no one guesses with them, and they cannot be asked for again.
	Granted bool
	// GrantedTo is the OAuth client that they were issued to; empty for the present one of the provider configuration.
	GrantedTo string
	// Entered says that a person has entered the credentials on the connection's page.
	Entered bool
	// Within is called in the transaction of the change, with the connection before and after it. An error undoes the
	// change. It is for those who store a part of the change themselves.
	Within func(ctx context.Context, tx *sql.Tx, before, after *Connection) error
	// Details are what the audit trail says about the change besides what differs. They have no secret.
	Details audit.State
	// pinned are the hosts to which an earlier attempt would have sent the credentials; nil before.
	pinned   []string
	Tags     patch.Field[map[string]*string]
	Metadata patch.Field[patch.Object]
}

// OnConflict selects what Create does if the connection exists.
type OnConflict string

// The choices.
const (
	// ConflictError returns connection_exists.
	ConflictError OnConflict = "error"
	// ConflictUpdate changes the existing connection.
	ConflictUpdate OnConflict = "update"
)

// conflictChoices returns every choice.
func conflictChoices() []OnConflict { return []OnConflict{ConflictError, ConflictUpdate} }

// Schema returns the schema with the choices, for the API.
func (OnConflict) Schema(oas.Registry) *oas.Schema { return oas.Enum(conflictChoices()) }

// NewConnection describes a connection to create.
type NewConnection struct {
	// Provider and ProviderConfigKey are two names of the key of the provider configuration. One of them is enough; if
	// both are set, they must be equal.
	Provider          *string
	ProviderConfigKey *string
	// ConnectionID is the caller's choice; nil has one generated.
	ConnectionID *string
	// OnConflict applies if a connection has that id; empty means ConflictError.
	OnConflict OnConflict
	// OwnerUserID is the member of the team whose connection it is to be; empty for one of the environment.
	OwnerUserID string
	// Pending creates a connection for which a person connects an account later. It must not have credentials.
	Pending bool
	// Change sets the rest, from the defaults. An absent Alias requests the connection id as alias if it is free; a
	// cleared one requests none.
	Change
}

// apply returns c as the change leaves it. Secret and Alias are stored elsewhere and stay as they are.
func (ch *Change) apply(c Connection) Connection {
	w := &c.Webhook
	w.Params = patch.MergeMembers(w.Params, ch.Params)
	w.DedupeWindowSeconds = ch.DedupeWindowSeconds.Pointer(w.DedupeWindowSeconds)
	if v := ch.RedeliverOnDuplicate; v != nil {
		w.RedeliverOnDuplicate = *v
	}
	if v := ch.MaxBodyBytes; v != nil {
		w.MaxBodyBytes = *v
	}
	if v := ch.SameBodyNewID; v != nil {
		w.SameBodyNewID = *v
	}
	w.Scheme = ch.Scheme.Or(w.Scheme, "")
	w.URLBase = ch.URLBase.Or(w.URLBase, "")
	w.SourceCIDRs = ch.SourceCIDRs.Or(w.SourceCIDRs, nil)
	w.RatePerSecond = ch.RatePerSecond.Pointer(w.RatePerSecond)
	c.Tags = patch.MergeMembers(c.Tags, ch.Tags)
	c.Metadata = patch.Merge(c.Metadata, ch.Metadata)
	return c
}

// within calls Within, if there is one. before is nil for a connection that is created.
func (ch *Change) within(ctx context.Context, tx *sql.Tx, before, after *Connection) error {
	if ch.Within == nil {
		return nil
	}
	return ch.Within(ctx, tx, before, after)
}
