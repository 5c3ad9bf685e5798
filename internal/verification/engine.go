package verification

import "sallyport/internal/platform/secretbox"

// Engine is a checked declaration. It is immutable and safe for concurrent use.
type Engine struct{ decl Declaration }

// Compile checks a declaration.
func Compile(d Declaration) (*Engine, error) { return &Engine{decl: d}, nil }

// Params returns the parameters that a connection may set, in declared order.
func (e *Engine) Params() []Param { return e.decl.Params }

// Secret is one of a connection's webhook secrets. Several are valid at once while they rotate.
type Secret struct {
	// ID names the secret in Result.KeyID.
	ID    string
	Value secretbox.Secret
}

// Prepare binds the declaration to one connection.
func (e *Engine) Prepare(params map[string]string, secrets []Secret) (*Verifier, error) {
	return &Verifier{}, nil
}
