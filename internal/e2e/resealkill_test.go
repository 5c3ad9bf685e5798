package e2e_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit/await"
)

// resealed is how many sealed values there are besides those of an empty installation: too many for one moment.
const resealed = 30_000

// A process that is killed while it encrypts everything with a new key loses no value and leaves none half written. The
// next one goes on, and then every value opens and none needs the older key.
func TestKilledDuringReencryption(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	var k apiKey
	text := in.command("", "keys", "create", "--name", "k", "--environment", "production", "--routes", "connections",
		"--json")
	require.NoError(t, json.Unmarshal([]byte(text), &k), text)
	stop := in.serve()
	status, body := in.ask(byKey(k.Key), http.MethodPost, "/connections", object{"provider": "http",
		"connection_id": "many", "auth_mode": "bearer", "credentials": object{"token": "the token"}, "test": false,
		"connection_config": object{"base_url": "http://127.0.0.1:9"}})
	require.Equal(t, http.StatusCreated, status, "%s", body)
	stop()

	data := strings.TrimPrefix(in.environ[0], "SALLYPORT_DATA=")
	keyset := filepath.Join(data, "keyset.json")
	d, err := db.Open(t.Context(), "", data)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	open := func() *secretbox.Box {
		box, err := secretbox.Open(secretbox.Source{Path: keyset})
		require.NoError(t, err)
		return box
	}
	box := open()
	place := func(id string) secretbox.AD {
		return secretbox.AD{Table: "connection_credential_values", Column: "value", RowID: id}
	}
	var uuid string
	require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT uuid FROM connections").Scan(&uuid))
	const part = 5_000 // of a transaction
	for from := 0; from < resealed; from += part {
		require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error {
			for i := from; i < from+part; i++ {
				name := fmt.Sprintf("n%06d", i)
				sealed, err := box.Seal([]byte(name), place(uuid+"/"+name))
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(t.Context(), `INSERT INTO connection_credential_values (id, connection_uuid, name,
					value) VALUES ($1, $2, $3, $4)`, uuid+"/"+name, uuid, name, sealed); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	// The command would encrypt by itself: here servers do.
	_, err = secretbox.Rotate(keyset)
	require.NoError(t, err)
	primary := open().PrimaryKeyID()
	current := func() int {
		counts, err := secretbox.Count(t.Context(), d, []secretbox.Column{{Table: "connection_credential_values",
			Column: "value", IDColumn: "id"}})
		require.NoError(t, err)
		return counts[primary]
	}

	process, end := in.run()
	await.Condition(t, "the first values", func() bool { // they come in the order of their ids
		var sealed []byte
		require.NoError(t, d.Read().QueryRowContext(t.Context(), `SELECT value FROM connection_credential_values
			ORDER BY id LIMIT 1`).Scan(&sealed))
		key, _ := secretbox.KeyID(sealed)
		return key == primary
	})
	require.NoError(t, process.Kill())
	require.Error(t, end())
	require.Less(t, current(), resealed, "the process was killed in the middle")

	defer in.serve()()
	await.Condition(t, "the others", func() bool { return current() == resealed+1 })
	box = open()
	rows, err := d.Read().QueryContext(t.Context(), "SELECT id, name, value FROM connection_credential_values")
	require.NoError(t, err)
	opened := 0
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var id, name string
		var sealed []byte
		if err := r.Scan(&id, &name, &sealed); err != nil {
			return err
		}
		plain, err := box.Open(sealed, place(id))
		if err == nil && name != "token" {
			require.Equal(t, name, string(plain))
		}
		opened++
		return err
	}))
	require.Equal(t, resealed+1, opened)
}
