package verification

import (
	"maps"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// Engine is a checked declaration. It is immutable and safe for concurrent use.
type Engine struct {
	decl   Declaration
	params []param
}

// Compile checks a declaration, which must not be changed afterwards. The error is a *ConfigError with every fault found;
// its fields are paths into the declaration. A declaration with parameters is checked with their defaults, and with each
// further value that it names itself.
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
	_, fs = compilePlan(declared)
	fs = append(b.faults, fs...)
	for i, p := range params {
		if !b.live[p.Name] && b.offBy[p.Name] == "" {
			fs.add(at("params", i), RuleUnknown, "is used nowhere")
		}
		fs = append(fs, e.tryAlternatives(p, values, fs)...)
	}
	if err := fs.err(); err != nil {
		return nil, err
	}
	return e, nil
}

// tryAlternatives checks the declaration with each value that a parameter names beside its default. That a value asks for
// another parameter is no fault of the declaration.
func (e *Engine) tryAlternatives(p param, values map[string]string, known faults) faults {
	var found faults
	for _, value := range p.alternatives() {
		varied := maps.Clone(values)
		varied[p.Name] = value
		d, _ := bind(e.decl, varied)
		_, fs := compilePlan(d)
		for _, f := range fs {
			if f.Rule != RuleCoherent && !slices.Contains(known, f) {
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

// Secret is one of a connection's webhook secrets. Several are valid at once while they rotate.
type Secret struct {
	// ID names the secret in Result.KeyID. It is not secret.
	ID    string
	Value secretbox.Secret
}

// Prepare binds the declaration to one connection's parameters and secrets. The error is a *ConfigError with every fault
// found; its fields are "params.<name>", "params" and "secret". Without secrets the Verifier refuses every delivery with
// ReasonSecretMissing.
func (e *Engine) Prepare(params map[string]string, secrets []Secret) (*Verifier, error) {
	values, fs := e.values(params)
	if len(fs) > 0 {
		return nil, fs.err()
	}
	d, b := bind(e.decl, values)
	p, planFaults := compilePlan(d)
	for _, f := range planFaults {
		fs = append(fs, b.blame(f)...)
	}
	for _, declared := range e.params {
		name := declared.Name
		if _, given := params[name]; given && values[name] != declared.Default && !b.live[name] {
			fs.add("params."+name, RuleCoherent, "has no effect unless %s is set", b.offBy[name])
		}
	}
	keys, secretFaults := decodeSecrets(p.secret, secrets)
	fs = append(fs, secretFaults...)
	if err := fs.err(); err != nil {
		return nil, err
	}
	return newVerifier(p, keys), nil
}

// values checks what the connection set and adds the defaults.
func (e *Engine) values(given map[string]string) (map[string]string, faults) {
	var fs faults
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
			fs.add("params."+clip(name, 64), RuleUnknown, "is not a parameter of this provider")
		}
	}
	return values, fs
}

// blame turns a fault of the bound declaration into faults of the parameters that its field mentions.
func (b *binder) blame(f Fault) []Fault {
	names := b.uses[f.Field]
	if len(names) == 0 {
		root, _, _ := strings.Cut(f.Field, ".")
		names = b.uses[root+".from"]
	}
	if len(names) == 0 {
		return []Fault{{Field: "params", Rule: f.Rule, Message: f.Field + " " + f.Message}}
	}
	out := make([]Fault, len(names))
	for i, name := range names {
		out[i] = Fault{Field: "params." + name, Rule: f.Rule, Message: f.Message}
	}
	return out
}

// key is a decoded secret.
type key struct {
	id    string
	bytes []byte
}

func decodeSecrets(how secretDecoding, secrets []Secret) ([]key, faults) {
	var fs faults
	if len(secrets) > maxSecrets {
		fs.add("secret", RuleLimit, "has more than %d values at once; delete those that are no longer used", maxSecrets)
		return nil, fs
	}
	keys := make([]key, 0, len(secrets))
	for _, s := range secrets {
		decoded, wrong := decodeSecret(how, s.Value.Reveal())
		if wrong != "" {
			fs.add("secret", RuleFormat, "%s %s", s.ID, wrong)
			continue
		}
		keys = append(keys, key{id: s.ID, bytes: decoded})
	}
	return keys, fs
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
