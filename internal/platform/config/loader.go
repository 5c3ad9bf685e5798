package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Loader fills a Config that is embedded in a kong command line, once:
//
//	var cli struct {
//		config.Config `embed:""`
//		Serve ServeCmd `cmd:""`
//	}
//	loader := config.NewLoader(os.Environ(), os.ReadFile)
//	parser := kong.Must(&cli, loader.Options()...)
//	kctx, err := parser.Parse(os.Args[1:])
//	err = loader.Complete(kctx, &cli.Config)
//
// An invalid value does not stop kong's parsing, so that commands which need no configuration still run and Complete
// can report all errors together.
type Loader struct {
	environ  map[string]string
	readFile func(string) ([]byte, error)

	settings map[string]setting
	// others are the variables of the program that are no settings.
	others   []string
	loaded   bool
	entries  map[string]entry
	origins  map[string]settingOrigin
	problems []problem
}

// NewLoader returns a Loader that reads environ, in the form of os.Environ, and files through readFile. others are the
// names of the program's variables that are no settings; any further SALLYPORT_… variable is an error.
func NewLoader(environ []string, readFile func(string) ([]byte, error), others ...string) *Loader {
	l := &Loader{
		environ: map[string]string{}, readFile: readFile, others: others,
		settings: map[string]setting{}, origins: map[string]settingOrigin{},
	}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			l.environ[name] = value
		}
	}
	for _, s := range settings() {
		l.settings[s.name] = s
	}
	return l
}

// Options returns the options that kong needs to fill the Config.
func (l *Loader) Options() []kong.Option {
	return []kong.Option{
		kong.NamedMapper(settingType, mapper{l}),
		kong.Resolvers(kong.ResolverFunc(l.resolve)),
	}
}

// layered is a value from the file or the environment on its way through kong.
type layered entry

// resolve hands kong the value of a setting that no flag sets: the environment's, or else the file's.
func (l *Loader) resolve(kctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	s, ok := l.settings[flag.Name]
	if !ok || flag.Tag.Type != settingType {
		return nil, nil
	}
	l.load(kctx)
	e, ok := l.entries[s.name]
	if raw := l.environ[s.variable()]; s.env && raw != "" {
		e, ok = entry{raw: raw, origin: settingOrigin{Source: sourceEnvironment, Name: s.variable()}}, true
	}
	if !ok {
		return nil, nil
	}
	l.origins[s.name] = e.origin
	return layered(e), nil
}

// load reads the file that the flag or the variable names, once.
func (l *Loader) load(kctx *kong.Context) {
	if l.loaded {
		return
	}
	l.loaded = true
	file := l.settings["config"]
	path, origin := strings.TrimSpace(l.environ[file.variable()]), settingOrigin{Source: sourceEnvironment,
		Name: file.variable()}
	for _, p := range kctx.Path {
		if p.Flag != nil && p.Flag.Name == file.name && p.Flag.Tag.Type == settingType && !p.Resolved {
			path, origin = fmt.Sprint(kctx.FlagValue(p.Flag)), settingOrigin{Source: sourceFlag, Name: "--" + file.name}
		}
	}
	for _, s := range settings() {
		if !s.env && l.environ[s.variable()] != "" {
			l.report(problem{Key: s.name, Origin: settingOrigin{Source: sourceEnvironment, Name: s.variable()},
				Message: s.describeSource()})
		}
	}
	l.unknownVariables()
	if path == "" {
		return
	}
	text, err := l.readFile(path)
	if err != nil {
		l.report(problem{Key: file.name, Origin: origin, Message: "the file cannot be read: " + err.Error()})
		return
	}
	entries, problems := readYAML(path, text)
	l.entries = entries
	l.problems = append(l.problems, problems...)
}

func (l *Loader) report(f problem) { l.problems = append(l.problems, f) }

// mapper turns written values into fields. It never fails: an invalid value becomes an error of the loader.
type mapper struct{ l *Loader }

// Decode implements kong.Mapper.
func (m mapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	name := ctx.Value.Name
	if target.Kind() == reflect.Bool && ctx.Scan.Peek().Type != kong.FlagValueToken {
		target.SetBool(true)
		return nil
	}
	token, err := ctx.Scan.PopValue(name)
	if err != nil {
		return err
	}
	raw, origin := fmt.Sprint(token.Value), settingOrigin{Source: sourceFlag, Name: "--" + name}
	if e, ok := token.Value.(layered); ok {
		raw, origin = e.raw, e.origin
	}
	if err := parseInto(target, raw); err != nil {
		m.l.report(problem{Key: name, Origin: origin, Message: err.Error()})
	}
	return nil
}

// Complete ends the loading. It records the origin of each value, derives the defaults that depend on others, and
// returns everything that is wrong as one error.
func (l *Loader) Complete(kctx *kong.Context, c *Config) error {
	l.load(kctx)
	for _, p := range kctx.Path {
		if p.Flag != nil && p.Flag.Tag.Type == settingType && !p.Resolved {
			l.origins[p.Flag.Name] = settingOrigin{Source: sourceFlag, Name: "--" + p.Flag.Name}
		}
	}
	l.variables(c)
	c.origins = l.origins
	c.derive()

	invalid := map[string]bool{}
	for _, f := range l.problems {
		invalid[f.Key] = true
	}
	for _, f := range c.validate() {
		// A value that could not be read, or was derived from one, cannot be validated.
		if invalid[f.Key] || (f.Key == "public-url" && f.Origin.Source == sourceDefault) {
			continue
		}
		l.report(f)
	}
	if len(l.problems) > 0 {
		return problemList(slices.Clone(l.problems))
	}
	return nil
}

// variables fills the settings that only a variable can set, which are no flags of kong.
func (l *Loader) variables(c *Config) {
	for _, s := range l.settings {
		if s.flag || s.file || !s.env {
			continue
		}
		if raw := strings.TrimSpace(l.environ[s.variable()]); raw != "" {
			s.value(c).SetString(raw)
			l.origins[s.name] = settingOrigin{Source: sourceEnvironment, Name: s.variable()}
		}
	}
}

// Load loads the configuration of a program without commands. The arguments do not include the program's name.
func Load(args, environ []string, readFile func(string) ([]byte, error)) (Config, error) {
	var cli struct {
		Config `embed:""`
	}
	l := NewLoader(environ, readFile)
	options := append(l.Options(), kong.NoDefaultHelp(), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	parser, err := kong.New(&cli, options...)
	if err != nil {
		return Config{}, fmt.Errorf("config: describe settings: %w", err)
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return Config{}, fmt.Errorf("config: command line: %w", err)
	}
	if err := l.Complete(kctx, &cli.Config); err != nil {
		return Config{}, err
	}
	return cli.Config, nil
}

// Default returns the configuration of a start without file, variables and flags.
func Default() Config {
	var c Config
	for _, s := range settings() {
		if s.def != "" {
			// The tests check the type of every default.
			_ = parseInto(s.value(&c), s.def)
		}
	}
	c.derive()
	return c
}
