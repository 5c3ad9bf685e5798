package verification

import (
	"maps"
	"slices"
	"strings"

	"sallyport/internal/platform/suggest"
)

// Engine is a checked declaration. It is immutable and safe for concurrent use.
type Engine struct {
	decl   Declaration
	params []param
}

// Compile checks a declaration, which must not be changed afterwards. The error is a *ConfigError with every problem
// found; its fields are paths into the declaration. A declaration with parameters is checked with their defaults, and
// with each further value that it names itself.
func Compile(d Declaration) (*Engine, error) {
	params, fs := compileParams(d.Params)
	if len(fs) > 0 {
		return nil, fs.err()
	}
	e := &Engine{decl: d, params: params}
	values := map[string]string{}
	for i := range params {
		values[params[i].Name] = params[i].sample()
	}
	declared, b := bind(d, values)
	_, fs = compilePlan(&declared, values)
	if strings.Contains(d.Event.TypeSeparators, paramOpen) {
		fs.add("event.type_separators", ruleFormat, dependent)
	}
	fs = append(fs, checkKnown(d.Event.Known, e.TypeRules())...)
	if fs = append(b.problems, b.restorePaths(fs)...); len(fs) == 0 {
		fs = e.checkBinding()
	}
	for i, p := range params {
		if !b.live[p.Name] && b.offBy[p.Name] == "" {
			fs.add(at("params", i), ruleUnknown, "is used nowhere")
		}
		fs = append(fs, e.checkAlternatives(p, values, fs)...)
	}
	if err := fs.err(); err != nil {
		return nil, err
	}
	return e, nil
}

// checkAlternatives checks the declaration with each value that a parameter names in addition to its default. If that
// value needs another parameter, this is no problem of the declaration.
func (e *Engine) checkAlternatives(p param, values map[string]string, known problems) problems {
	var found problems
	for _, value := range p.alternatives() {
		varied := maps.Clone(values)
		varied[p.Name] = value
		d, b := bind(e.decl, varied)
		_, fs := compilePlan(&d, varied)
		for _, f := range b.restorePaths(fs) {
			if f.Rule != ruleCoherent && !slices.Contains(known, f) {
				f.Message += " (with " + p.Name + " = " + value + ")"
				found = append(found, f)
			}
		}
	}
	return found
}

// Params returns the parameters that a connection may set, in declared order.
func (e *Engine) Params() []Param {
	out := make([]Param, len(e.params))
	for i, p := range e.params {
		out[i] = p.Param
		out[i].Enum = slices.Clone(p.Enum)
	}
	return out
}

// Unproved reports whether nothing proves the sender of the provider's webhooks, so that a connection has to accept
// that.
func (e *Engine) Unproved() bool { return e.decl.Scheme == schemeNone }

// Captures reports whether the provider hands its secret over in a handshake.
func (e *Engine) Captures() bool {
	return slices.ContainsFunc(e.decl.Handshake, func(h Handshake) bool { return h.Capture != nil })
}

// Settings are the values that one connection provides.
type Settings struct {
	// Params are the values of the declaration's parameters.
	Params map[string]string
	// Secrets are the connection's webhook secrets. Without any the Verifier rejects every webhook with
	// ReasonSecretMissing, unless the declaration's proof uses none.
	Secrets []Secret
	// URLBase is the scheme, host and path prefix of the URL that the provider calls, if that is not the server's public
	// URL.
	URLBase string
	// Keyring provides the keys that providers publish. Without one, webhooks that need them are rejected with
	// ReasonKeysUnavailable.
	Keyring *Keyring
	// KeyOwner is the connection whose share of the fetches of keys its webhooks use.
	KeyOwner KeyOwner
	// AcceptUnverified states that the connection accepts webhooks whose sender nothing proves. Only the scheme none needs
	// it.
	AcceptUnverified bool
}

// Bind binds the declaration to one connection. The error is a *ConfigError with every problem found; its fields are
// "params.<name>", "params", "secret", "url_base" and "accept_unverified".
func (e *Engine) Bind(s Settings) (*Verifier, error) {
	values, fs := e.values(s.Params)
	if len(fs) > 0 {
		return nil, fs.err()
	}
	d, b := bind(e.decl, values)
	p, planViolations := compilePlan(&d, values)
	for _, f := range b.restorePaths(planViolations) {
		fs = append(fs, b.blameParams(f)...)
	}
	for _, declared := range e.params {
		name := declared.Name
		if _, given := s.Params[name]; given && values[name] != declared.Default && !b.live[name] {
			fs.add("params."+name, ruleCoherent, "has no effect unless %s is set", b.offBy[name])
		}
	}
	if wrong := CheckURLBase(s.URLBase); wrong != "" {
		fs.add("url_base", ruleFormat, "%s", wrong)
	}
	if len(planViolations) == 0 {
		fs = append(fs, p.bindSettings(s)...)
	}
	if err := fs.err(); err != nil {
		return nil, err
	}
	return newVerifier(p), nil
}

// Prepare binds the declaration to parameters and secrets alone.
func (e *Engine) Prepare(params map[string]string, secrets []Secret) (*Verifier, error) {
	return e.Bind(Settings{Params: params, Secrets: secrets})
}

// bindSettings gives the proofs the settings of the connection other than its parameters.
func (p *plan) bindSettings(s Settings) problems {
	fs := bindKeys(p.proofs, s.Secrets)
	for _, proof := range p.proofs {
		proof.urlBase, proof.keyring, proof.keyOwner = s.URLBase, s.Keyring, s.KeyOwner
		if proof.bindSource != nil {
			newest := ""
			if n := len(proof.keys); n > 0 {
				newest = string(proof.keys[n-1].bytes)
			}
			proof.bindSource(newest)
		}
		if proof.scheme == schemeNone && !s.AcceptUnverified {
			fs.add("accept_unverified", ruleRequired,
				"must be true: nothing proves the sender of this provider's webhooks, and a connection that accepts them has to "+
					"say so")
		}
	}
	return fs
}

// values checks what the connection set and adds the defaults.
func (e *Engine) values(given map[string]string) (map[string]string, problems) {
	var fs problems
	values := map[string]string{}
	for i := range e.params {
		p := &e.params[i]
		value, ok := given[p.Name]
		if !ok {
			value = p.Default
		}
		if rule, message := p.check(value); rule != "" {
			fs.add("params."+p.Name, rule, "%s", message)
		}
		values[p.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, known := values[name]; !known {
			fs.add("params."+truncate(name, 64), ruleUnknown, "is not a parameter of this provider%s", e.nearest(name))
		}
	}
	return values, fs
}

// nearest ends a sentence about a parameter that does not exist: with the one that is probably meant, or all.
func (e *Engine) nearest(name string) string {
	names := make([]string, len(e.params))
	for i := range e.params {
		names[i] = e.params[i].Name
	}
	question := suggest.Question(name, names, nil)
	switch {
	case len(names) == 0:
		return ", which has none"
	case question == "":
		return "; it has " + strings.Join(names, ", ")
	default:
		return question
	}
}

func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
