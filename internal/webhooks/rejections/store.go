package rejections

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/page"
)

// Filter narrows a list. Values of one field mean any of them; empty fields do not narrow.
type Filter struct {
	ConnectionIDs      []string
	ProviderConfigKeys []string
	Reasons            []string
}

const columns = `id, environment_id, connection_uuid, connection_id, provider, provider_config_key, received_ms, reason,
	message, diagnosis_code, diagnosis_message, by_alias, client_ip, method, headers, body, body_size, suppressed`

// List returns one page of the refused requests that the view shows, and one row more where another page follows.
func (s *Service) List(ctx context.Context, v access.View, f Filter, p page.Request) ([]Rejection, error) {
	args := []any{string(v.Environment)}
	var where strings.Builder
	if condition, names := v.Connections.Where("connection_id", 2); condition != "" {
		where.WriteString(" AND " + condition)
		args = append(args, names...)
	}
	in := func(column string, values []string) {
		if len(values) == 0 {
			return
		}
		where.WriteString(" AND " + column + " IN " + db.In(len(args)+1, len(values)))
		for _, v := range values {
			args = append(args, v)
		}
	}
	in("connection_id", f.ConnectionIDs)
	in("provider_config_key", f.ProviderConfigKeys)
	in("reason", f.Reasons)
	if p.After != "" {
		args = append(args, p.After)
		where.WriteString(" AND id " + p.Compare() + " $" + strconv.Itoa(len(args)))
	}
	rows, err := s.db.Read().QueryContext(ctx,
		fmt.Sprintf(`SELECT %s FROM webhook_rejections WHERE environment_id = $1%s ORDER BY id %s LIMIT %d`, columns,
			where.String(), p.Direction(), p.Fetch()), args...)
	if err != nil {
		return nil, fmt.Errorf("list refused requests: %w", err)
	}
	out := []Rejection{}
	err = db.Each(rows, func(r *sql.Rows) error {
		v, err := scan(r)
		out = append(out, v)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list refused requests: %w", err)
	}
	return out, nil
}

func scan(r *sql.Rows) (Rejection, error) {
	var v Rejection
	var received int64
	err := r.Scan(&v.ID, &v.Environment, &v.ConnectionUUID, &v.ConnectionID, &v.Provider, &v.ProviderConfigKey, &received,
		&v.Reason, &v.Message, &v.Diagnosis.Code, &v.Diagnosis.Message, &v.ByAlias, &v.ClientIP, &v.Method, &v.Headers,
		&v.Body, &v.BodySize, &v.Suppressed)
	v.ReceivedAt = clock.FromMillis(received)
	return v, err
}

// store inserts refused requests, counts suppressed ones to the last that was stored before them, and trims the rings.
func (s *Service) store(ctx context.Context, batch []Rejection, suppressed map[string]int64) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		for id, n := range suppressed {
			if _, err := tx.ExecContext(ctx, `UPDATE webhook_rejections SET suppressed = suppressed + $2 WHERE id = $1`, id,
				n); err != nil {
				return fmt.Errorf("count suppressed refusals: %w", err)
			}
		}
		touched := map[place]bool{}
		for i := range batch {
			v := &batch[i]
			_, err := tx.ExecContext(ctx, `INSERT INTO webhook_rejections (`+columns+`)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
				v.ID, string(v.Environment), v.ConnectionUUID, v.ConnectionID, v.Provider, v.ProviderConfigKey,
				clock.Millis(v.ReceivedAt), v.Reason, v.Message, v.Diagnosis.Code, v.Diagnosis.Message, v.ByAlias, v.ClientIP,
				v.Method, v.Headers, v.Body, v.BodySize, v.Suppressed)
			if err != nil {
				return fmt.Errorf("store a refused request: %w", err)
			}
			touched[place{v.ConnectionUUID, v.ByAlias}] = true
		}
		for at := range touched {
			keep := PerConnection
			if at.byAlias {
				keep = PerAlias
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM webhook_rejections WHERE connection_uuid = $1
				AND by_alias = $2 AND id <=
				(SELECT id FROM webhook_rejections WHERE connection_uuid = $1 AND by_alias = $2
				ORDER BY id DESC LIMIT 1 OFFSET %d)`,
				keep),
				at.connectionUUID, at.byAlias)
			if err != nil {
				return fmt.Errorf("trim the refused requests: %w", err)
			}
		}
		return nil
	})
}

// Forget deletes what a connection refused, in the transaction that deletes the connection.
func (s *Service) Forget(ctx context.Context, tx *sql.Tx, connectionUUID string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM webhook_rejections WHERE connection_uuid = $1`,
		connectionUUID); err != nil {
		return fmt.Errorf("delete the refused requests of a connection: %w", err)
	}
	return nil
}

// expireRows is how many refused requests one transaction deletes at most.
const expireRows = 500

// Expire deletes refused requests older than Lifetime, in small transactions.
func (s *Service) Expire(ctx context.Context, now time.Time) error {
	before := clock.Millis(now.Add(-Lifetime))
	for {
		var n int64
		err := s.db.Tx(ctx, func(tx *sql.Tx) error {
			var err error
			n, err = db.Affected(tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM webhook_rejections WHERE id IN
				(SELECT id FROM webhook_rejections WHERE received_ms < $1 ORDER BY id LIMIT %d)`, expireRows), before))
			return err
		})
		if err != nil {
			return fmt.Errorf("delete old refused requests: %w", err)
		}
		if n < expireRows {
			return nil
		}
	}
}
