package connecting

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
)

const (
	linkTable     = "connect_links"
	flowTable     = "connect_flows"
	columnSecrets = "secrets"
)

// sealedColumns returns the columns that a rotation of the keyset encrypts again.
func sealedColumns() []secretbox.Column {
	return []secretbox.Column{{Table: flowTable, Column: columnSecrets, IDColumn: "id"}}
}

func linkColumns(l *link) db.Columns {
	return db.Columns{
		db.Col("id", &l.id),
		db.Col("token_hash", &l.tokenHash),
		db.Col("connection_uuid", &l.connectionUUID),
		db.Col("environment_id", &l.environment),
		db.Col("team_id", &l.team),
		db.Col("provider_config_key", &l.providerConfigKey),
		db.Col("connection_id", &l.connectionID),
		db.Col("auth_mode", &l.mode),
		db.Col("client_id", &l.clientID),
		db.Col("redirect_url", &l.redirectURL),
		db.Col("state", &l.state),
		db.Col("scopes", db.JSON(&l.scopes)),
		db.Col("browser_hash", &l.browserHash),
		db.Col("signed_in_ms", &l.signedInMillis),
		db.Col("attempts", &l.attempts),
		db.Col("connected", &l.connected),
		db.Col("credentials_ms", &l.credentialsMillis),
		db.Col("returned_state", &l.returned),
		db.Col("created_ms", db.Millis(&l.createdAt)),
		db.Col("expires_ms", db.Millis(&l.expiresAt)),
	}
}

// replaceLink stores a link in place of any that the connection has, whose browsers cannot return any more.
func replaceLink(ctx context.Context, tx *sql.Tx, l *link) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM connect_links WHERE environment_id = $1 AND connection_uuid = $2`,
		string(l.environment), l.connectionUUID)
	if err == nil {
		_, err = db.Insert(ctx, tx, "INSERT INTO connect_links", linkColumns(l), "")
	}
	if err != nil {
		return fmt.Errorf("store a connect link: %w", err)
	}
	return nil
}

func findLink(ctx context.Context, q db.Querier, w *db.Where) (link, bool, error) {
	l, found, err := db.One(ctx, q, linkColumns, "FROM "+linkTable, w, "")
	if err != nil {
		return link{}, false, fmt.Errorf("read a connect link: %w", err)
	}
	return l, found, nil
}

// begin counts an attempt of a browser, to which the link then belongs. It reports false if the link is another's or
// has been used. The link has the number of the attempt then.
func begin(ctx context.Context, tx *sql.Tx, l *link, browserHash []byte) (bool, error) {
	return db.Found("a link to begin with", tx.QueryRowContext(ctx, `UPDATE connect_links
		SET attempts = attempts + 1, browser_hash = $3
		WHERE environment_id = $1 AND id = $2 AND NOT connected AND attempts < $4
			AND (browser_hash IS NULL OR browser_hash = $3)
		RETURNING attempts`, string(l.environment), l.id, browserHash, maxAttempts).Scan(&l.attempts))
}

// giveBack undoes the attempt of begin.
func giveBack(ctx context.Context, tx *sql.Tx, l *link) error {
	_, err := tx.ExecContext(ctx, `UPDATE connect_links SET attempts = attempts - 1
		WHERE environment_id = $1 AND id = $2 AND attempts > 0`, string(l.environment), l.id)
	if err != nil {
		return fmt.Errorf("give an attempt with a link back: %w", err)
	}
	return nil
}

// finish marks a link as used. It reports false if it was used already, or replaced.
func finish(ctx context.Context, tx *sql.Tx, l *link) (bool, error) {
	done, err := db.Changed(tx.ExecContext(ctx, `UPDATE connect_links SET connected = $3
		WHERE environment_id = $1 AND id = $2 AND NOT connected`, string(l.environment), l.id, true))
	if err != nil {
		return false, fmt.Errorf("finish a connect link: %w", err)
	}
	return done, nil
}

// noteReturn notes with which state a browser has come back.
func noteReturn(ctx context.Context, tx *sql.Tx, f *flow, state secretbox.Secret) error {
	if _, err := tx.ExecContext(ctx, `UPDATE connect_links SET returned_state = $3 WHERE environment_id = $1 AND id = $2`,
		string(f.environment), f.linkID, flowID(state)); err != nil {
		return fmt.Errorf("note the return of a browser: %w", err)
	}
	return nil
}

// oldLinks returns links of any environment that were made before a time, oldest first, after a given one.
func oldLinks(ctx context.Context, q db.Querier, before time.Time, after *link, limit int) ([]link, error) {
	w := new(db.Where).And("created_ms < ?", clock.Millis(before))
	if after != nil {
		w.And("(created_ms, id) > (?, ?)", clock.Millis(after.createdAt), after.id)
	}
	list, err := db.All(ctx, q, linkColumns, "FROM "+linkTable, w, fmt.Sprintf("ORDER BY created_ms, id LIMIT %d", limit))
	if err != nil {
		return nil, fmt.Errorf("list old connect links: %w", err)
	}
	return list, nil
}

func deleteLink(ctx context.Context, tx *sql.Tx, l *link) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM connect_links WHERE environment_id = $1 AND id = $2`,
		string(l.environment), l.id); err != nil {
		return fmt.Errorf("delete a connect link: %w", err)
	}
	return nil
}

// flow is a browser at a provider.
type flow struct {
	linkID      string
	environment id.Environment
	expiresAt   time.Time
	flowSecrets
}

// flowSecrets are what the way back needs. They are sealed together, because they are used once and together.
type flowSecrets struct {
	Mode     string            `json:"mode"`
	ClientID string            `json:"client_id"`
	Given    map[string]string `json:"given"`
	Scopes   []string          `json:"scopes"`
	Verifier string            `json:"verifier,omitempty"`
	Token    string            `json:"token,omitempty"`
	Secret   string            `json:"secret,omitempty"`
	// Link is the token of the link, so that the page of an error can lead back to it.
	Link string `json:"link,omitempty"`
	// SignIn is true on the way to an identity provider, of which nothing comes back but the browser.
	SignIn bool `json:"sign_in,omitempty"`
	// Granted is what the provider has granted, while the person chooses among Choices; nil before.
	Granted *granted          `json:"granted,omitempty"`
	Field   string            `json:"field,omitempty"`
	Choices []outbound.Choice `json:"choices,omitempty"`
}

// granted is a grant that is not stored with a connection yet.
type granted struct {
	Values map[string]string `json:"values"`
	// Scopes are nil if they are not known, and ExpiresMillis is 0 for a token without a known end.
	Scopes        []string `json:"scopes"`
	ExpiresMillis int64    `json:"expires_ms"`
}

// flowStore keeps browsers at providers by their state.
type flowStore struct{ box *secretbox.Box }

func flowID(state secretbox.Secret) string { return hex.EncodeToString(hashOf(state)) }

func flowPlace(flowID string) secretbox.AD {
	return secretbox.AD{Table: flowTable, Column: columnSecrets, RowID: flowID}
}

// seal returns the flow's secrets, sealed for its state.
func (s flowStore) seal(f *flow, state secretbox.Secret) ([]byte, error) {
	plain, err := json.Marshal(f.flowSecrets)
	if err != nil {
		return nil, fmt.Errorf("write what the way back needs: %w", err)
	}
	sealed, err := s.box.Seal(plain, flowPlace(flowID(state)))
	if err != nil {
		return nil, fmt.Errorf("seal what the way back needs: %w", err)
	}
	return sealed, nil
}

func insertFlow(ctx context.Context, tx *sql.Tx, f *flow, state secretbox.Secret, sealed []byte) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO connect_flows (id, link_id, environment_id, secrets, expires_ms)
		VALUES ($1, $2, $3, $4, $5)`, flowID(state), f.linkID, string(f.environment), sealed, clock.Millis(f.expiresAt))
	if err != nil {
		return fmt.Errorf("store a way to a provider: %w", err)
	}
	return nil
}

// take removes a flow of a browser and returns it: a state works once. found is false for a state that is unknown or
// was used, and for one of another browser, which stays.
func (s flowStore) take(ctx context.Context, tx *sql.Tx, state secretbox.Secret, browserHash []byte) (flow, bool,
	error) {
	if browserHash == nil {
		return flow{}, false, nil
	}
	return s.read(ctx, tx, state, `DELETE FROM connect_flows WHERE id = $1 AND EXISTS (SELECT 1 FROM connect_links
		WHERE connect_links.id = connect_flows.link_id AND connect_links.environment_id = connect_flows.environment_id
			AND connect_links.browser_hash = $2) RETURNING `+flowValues, browserHash)
}

// look is take for a flow that stays.
func (s flowStore) look(ctx context.Context, q db.Querier, state secretbox.Secret) (flow, bool, error) {
	return s.read(ctx, q, state, "SELECT "+flowValues+" FROM connect_flows WHERE id = $1")
}

// flowValues are the columns that read scans.
const flowValues = "link_id, environment_id, secrets, expires_ms"

// read returns the flow that a query of its id returns. args follow the id.
func (s flowStore) read(ctx context.Context, q db.Querier, state secretbox.Secret, query string,
	args ...any) (f flow, found bool, err error) {
	if hashOf(state) == nil {
		return flow{}, false, nil
	}
	var sealed []byte
	var expires int64
	key := flowID(state)
	found, err = db.Found("a way to a provider", q.QueryRowContext(ctx, query, append([]any{key}, args...)...).Scan(
		&f.linkID, &f.environment, &sealed, &expires))
	if err != nil || !found {
		return flow{}, false, err
	}
	f.expiresAt = clock.FromMillis(expires)
	plain, err := s.box.Open(sealed, flowPlace(key))
	if err != nil {
		return flow{}, false, fmt.Errorf("open what the way back needs: %w", err)
	}
	if err := json.Unmarshal(plain, &f.flowSecrets); err != nil {
		return flow{}, false, fmt.Errorf("read what the way back needs: %w", err)
	}
	return f, true, nil
}

func deleteFlows(ctx context.Context, tx *sql.Tx, before time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM connect_flows WHERE expires_ms < $1`, clock.Millis(before)); err != nil {
		return fmt.Errorf("delete expired ways to providers: %w", err)
	}
	return nil
}
