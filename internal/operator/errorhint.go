package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"sallyport/internal/identity/team"

	"sallyport/internal/app"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/httpserver"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
)

// Remedies for common problems of operators.
const (
	hintNoDatabase = "Start `sallyport serve` or run `sallyport migrate` once, or name the right folder with --data."
	hintDatabase   = "Check that the database runs and is reachable from here, and that --database-url, or the data " +
		"folder, is right."
	hintPending     = "Run `sallyport migrate`, or start with `sallyport serve --migrate`."
	hintNewer       = "Run the release that made the schema or a newer one, or restore a backup."
	hintWrongKeyset = "This is not the keyset of this database: name the right one with --keyset-file, or restore it " +
		"from its backup."
	hintKeyset = "Check --keyset-file or SALLYPORT_KEYSET; where there has never been a keyset, `sallyport keyset " +
		"create` makes one."
	hintPermissions = "Make the file its owner's alone: chmod 600 on the keyset file."
	hintDefinitions = "Fix the definitions in the folder that --providers-dir names; `sallyport providers lint` checks it."
	hintNotSQLite   = "`pg_dump` and `pg_restore` do it, while servers run; docs/guides/operate.md has the steps, " +
		"and `sallyport doctor` checks what was restored. Copy the keyset too."
	hintOccupied   = "Restore into another folder with --data, or move the files of the old database aside, all of them."
	hintKeysetFrom = "Name its copy with --keyset-from: without it none of the secrets in the backup can be opened."
	hintPort       = "Stop the other program, or choose another address with --%s."
	hintRights     = "Choose a port above 1023 with --%s, or let the program have the port: with systemd, " +
		"AmbientCapabilities=CAP_NET_BIND_SERVICE."
	hintNoAddress = "Choose an address of this machine with --%s."
	hintNoTeam    = "Run `sallyport admin create --email ADDRESS` first."
)

// Hint returns a sentence with the fix of an error that operators meet, or nothing where there is none or the error
// says it.
func Hint(err error) string {
	var definitions registry.FolderError
	var file *fs.PathError
	var address *httpserver.AddressError
	switch {
	case errors.As(err, &definitions):
		return hintDefinitions
	case errors.Is(err, ErrNoDatabase):
		return hintNoDatabase
	case errors.Is(err, secretbox.ErrUnknownKey), errors.Is(err, secretbox.ErrDecrypt):
		return hintWrongKeyset
	case errors.Is(err, secretbox.ErrPermissions):
		return hintPermissions
	case errors.Is(err, secretbox.ErrKeyset), errors.Is(err, app.ErrKeyset) && errors.Is(err, fs.ErrNotExist):
		return hintKeyset
	case errors.Is(err, errNotSQLite):
		return hintNotSQLite
	case errors.Is(err, errOccupied):
		return hintOccupied
	case errors.Is(err, errKeysetNeeded):
		return hintKeysetFrom
	case errors.Is(err, team.ErrNone):
		return hintNoTeam
	case errors.As(err, &address):
		return addressHint(address)
	case errors.Is(err, ErrDatabase):
		return hintDatabase
	case errors.As(err, &file):
		return "" // it names the file, and is no matter of the database
	case db.IsUnavailable(err):
		return hintDatabase
	default:
		return ""
	}
}

// addressHint returns the fix for an address that cannot be opened.
func addressHint(e *httpserver.AddressError) string {
	switch {
	case errors.Is(e, syscall.EADDRINUSE):
		return fmt.Sprintf(hintPort, e.Setting)
	case errors.Is(e, syscall.EACCES):
		return fmt.Sprintf(hintRights, e.Setting)
	default:
		return fmt.Sprintf(hintNoAddress, e.Setting)
	}
}
