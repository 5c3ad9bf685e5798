package connections

import (
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
)

// chooseMode returns the mode that credentials are for: the one that is named, else the connection's, else the first
// that they fit. It is nil for a connection that has and gets none, and for a name that is none, which v says.
func chooseMode(v *apperr.Violations, engine *outbound.Engine, current *Connection, ch *Change) *outbound.Mode {
	named := ""
	switch {
	case ch.AuthMode != nil:
		named = *ch.AuthMode
	case current.Credentials != nil:
		named = current.AuthMode
	}
	if named == NoAuth && ch.Credentials.Given() {
		v.Add("auth_mode", "coherent", "must not be none together with credentials")
		return nil
	}
	if named != "" {
		mode, known := engine.Mode(named)
		switch {
		case known:
			return mode
		case named == NoAuth:
			return nil // the connection only receives webhooks
		default:
			v.Add("auth_mode", "enum", "must be one of "+strings.Join(modeNames(engine), ", "))
			return nil
		}
	}
	if !ch.Credentials.Given() {
		return nil
	}
	modes := engine.Modes()
	for _, mode := range modes {
		if len(mode.CheckCredentials(ch.Credentials.Value.Values)) == 0 {
			return mode
		}
	}
	// The errors are about the mode that has most of the names.
	return slices.MaxFunc(modes, func(a, b *outbound.Mode) int {
		return countNamed(a, ch.Credentials.Value.Values) - countNamed(b, ch.Credentials.Value.Values)
	})
}

// countNamed counts the given credentials that the mode has.
func countNamed(m *outbound.Mode, values map[string]secretbox.Secret) (n int) {
	for i := range m.Fields {
		if _, given := values[m.Fields[i].Name]; given {
			n++
		}
	}
	return n
}

func modeNames(e *outbound.Engine) []string {
	var names []string
	for _, m := range e.Modes() {
		names = append(names, m.Name)
	}
	return names
}
