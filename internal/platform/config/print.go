package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
)

// redactedInURL replaces a password in a URL, where brackets would be percent-encoded.
const redactedInURL = "redacted"

// Print writes every effective value as YAML, with its source as a comment. The keyset and the database's password are
// redacted.
func (c *Config) Print(w io.Writer) error {
	var b bytes.Buffer
	for _, s := range settings() {
		value, err := printable(s.value(c))
		if err != nil {
			return fmt.Errorf("config: print %s: %w", s.name, err)
		}
		o := c.origin(s.name)
		source := string(o.Source)
		switch o.Source {
		case sourceFile:
			source = fmt.Sprintf("%s %s, line %d", o.Source, o.Name, o.Line)
		case sourceEnvironment, sourceFlag:
			source += " " + o.Name
		case sourceDefault:
		}
		fmt.Fprintf(&b, "%s: %s # %s\n", s.name, value, source)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("config: print: %w", err)
	}
	return nil
}

// printable writes a value as YAML. JSON strings are YAML strings, with any content.
func printable(field reflect.Value) (string, error) {
	switch v := field.Interface().(type) {
	case bool, int, int64:
		return fmt.Sprint(v), nil
	case time.Duration:
		return v.String(), nil
	case []netip.Prefix:
		parts := []string{}
		for _, p := range v {
			parts = append(parts, p.String())
		}
		return quoted(parts)
	case secretbox.Secret:
		return quoted(redact(v))
	default:
		return quoted(format(field))
	}
}

func quoted(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// redact keeps only the part of a secret that identifies it: nothing, or a database URL without its passwords.
func redact(s secretbox.Secret) string {
	if s == "" {
		return ""
	}
	if !isPostgres(s.Reveal()) {
		return secretbox.Redacted
	}
	u, err := url.Parse(s.Reveal())
	if err != nil {
		return secretbox.Redacted
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), redactedInURL)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return secretbox.Redacted
	}
	for name := range q {
		if strings.Contains(strings.ToLower(name), "pass") {
			q.Set(name, redactedInURL)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}
