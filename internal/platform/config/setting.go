package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
)

// settingType is the tag value that routes a flag through Loader, and distinguishes a setting from a command's own
// flag.
const settingType = "setting"

// setting is the description of one field of Config, from its tags.
type setting struct {
	name    string
	def     string // as it would be written; empty with derived or with none
	derived string
	help    string
	index   int
	flag    bool
	env     bool
	file    bool
}

// settings lists the fields of Config in their order.
func settings() []setting {
	t := reflect.TypeFor[Config]()
	var out []setting
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, ok := tag.Lookup("name")
		if !ok {
			continue
		}
		s := setting{name: name, def: tag.Get("default"), derived: tag.Get("derived"), help: tag.Get("help"), index: i}
		from, restricted := tag.Lookup("from")
		s.flag = !restricted || strings.Contains(from, string(sourceFlag))
		s.env = !restricted || strings.Contains(from, string(sourceEnvironment))
		s.file = !restricted
		out = append(out, s)
	}
	return out
}

// variablePrefix begins the name of each variable.
const variablePrefix = "SALLYPORT_"

// variable returns the setting's environment variable.
func (s setting) variable() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// describeSource says which sources may set a setting that came from another one.
func (s setting) describeSource() string {
	switch {
	case s.flag && s.env:
		return fmt.Sprintf("is set by --%s or %s only", s.name, s.variable())
	case s.flag:
		return fmt.Sprintf("is set by the flag --%s only", s.name)
	default:
		return fmt.Sprintf("is set by the variable %s only", s.variable())
	}
}

// value returns the setting's field in c.
func (s setting) value(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().Field(s.index) }

// parseInto reads a written value into a field of Config. A list is appended to the present values, so that a flag may
// occur several times. The error is a clause that follows the name of the setting.
func parseInto(field reflect.Value, raw string) error {
	raw = strings.TrimSpace(raw)
	switch p := field.Addr().Interface().(type) {
	case *string:
		*p = raw
	case *secretbox.Secret:
		*p = secretbox.Secret(raw)
	case *LogFormat:
		switch f := LogFormat(raw); f {
		case LogAuto, LogJSON, LogText:
			*p = f
		default:
			return errors.New("is not one of auto, json, text")
		}
	case *role.Role:
		switch r := role.Role(raw); r {
		case role.All, role.API, role.Worker:
			*p = r
		default:
			return errors.New("is not one of all, api, worker")
		}
	case *SMTPTLS:
		switch t := SMTPTLS(raw); t {
		case SMTPStartTLS, SMTPImplicit, SMTPNone:
			*p = t
		default:
			return errors.New("is not one of starttls, implicit, none")
		}
	case *slog.Level:
		switch raw {
		case "debug":
			*p = slog.LevelDebug
		case "info":
			*p = slog.LevelInfo
		case "warn":
			*p = slog.LevelWarn
		case "error":
			*p = slog.LevelError
		default:
			return errors.New("is not one of debug, info, warn, error")
		}
	case *bool:
		b, err := strconv.ParseBool(raw)
		if err != nil {
			return errors.New("is neither true nor false")
		}
		*p = b
	case *int, *int64:
		n, err := strconv.ParseInt(raw, 10, field.Type().Bits())
		if err != nil {
			return errors.New("is not a whole number")
		}
		field.SetInt(n)
	case *time.Duration:
		d, err := time.ParseDuration(raw)
		if err != nil {
			return errors.New("is not a duration such as 30s or 1h30m")
		}
		*p = d
	case *[]netip.Prefix:
		list, err := egress.ParseCIDRs(splitList(raw))
		if err != nil {
			return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		*p = append(*p, list...)
	default:
		// A field of a new type needs a case above; the tests read every field.
		return fmt.Errorf("has the type %s, which no setting can have", field.Type())
	}
	return nil
}

// format writes a value as parseInto reads it.
func format(field reflect.Value) string {
	switch v := field.Interface().(type) {
	case secretbox.Secret:
		return v.Reveal()
	case slog.Level:
		return strings.ToLower(v.String())
	case []netip.Prefix:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = p.String()
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

func splitList(raw string) []string {
	var out []string
	for part := range strings.SplitSeq(raw, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
