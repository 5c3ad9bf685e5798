package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/suggest"
	"sallyport/internal/platform/terminal"
)

// knownTypes are the types that the providers of an environment are known to send.
type knownTypes struct {
	// written are the types as their providers write them, and as events have them where that differs. A family of types
	// ends with *.
	written []string
	// partial is set if nothing is known of one of the providers.
	partial bool
}

// warnTypes warns of filters by types that nothing can match: of those that are only the beginning of types, as issues
// is of issues.opened, and of those that none of the providers is known to send. The providers are those named, or else
// those of the environment's connections. A server that does not say gets no warning.
func (e *env) warnTypes(ctx context.Context, api *apiclient.Client, patterns, providers []string) {
	if len(patterns) == 0 {
		return
	}
	isOwn := func(text string) bool { return strings.HasPrefix(text, ownProvider+".") }
	for _, own := range []bool{false, true} {
		of := slices.DeleteFunc(slices.Clone(patterns), func(text string) bool { return isOwn(text) != own })
		if len(of) == 0 {
			continue
		}
		from := providers
		if own {
			from = []string{ownProvider}
		}
		known, ok := typesOf(ctx, api, from)
		for _, text := range of {
			if warning := known.warning(text); ok && warning != "" {
				e.note("warning: %s", terminal.Inline(warning))
			}
		}
	}
}

// typesOf asks the server for the types.
func typesOf(ctx context.Context, api *apiclient.Client, providers []string) (known knownTypes, ok bool) {
	if len(providers) == 0 {
		_, err := api.Each(ctx, apiclient.Request{Path: "/connections"}, 0, func(raw json.RawMessage) error {
			row, err := into[connectionRow](raw)
			if !slices.Contains(providers, row.Provider) {
				providers = append(providers, row.Provider)
			}
			return err
		})
		if err != nil {
			return known, false
		}
	}
	if len(providers) == 0 {
		return known, false
	}
	silent := slices.Clone(providers)
	_, err := api.Each(ctx, apiclient.Request{Path: "/webhook-events/types", Query: url.Values{"provider": providers}}, 0,
		func(raw json.RawMessage) error {
			row, err := into[struct {
				Provider  string `json:"provider"`
				EventType string `json:"event_type"`
				WrittenAs string `json:"written_as"`
			}](raw)
			known.written = append(known.written, row.WrittenAs)
			if row.EventType != row.WrittenAs {
				known.written = append(known.written, row.EventType)
			}
			silent = slices.DeleteFunc(silent, func(slug string) bool { return slug == row.Provider })
			return err
		})
	known.partial = len(silent) > 0
	return known, err == nil
}

// warning returns what is wrong with a type or pattern; empty if nothing is.
func (k knownTypes) warning(text string) string {
	if strings.HasPrefix(text, "*") {
		return ""
	}
	prefix, family := strings.CutSuffix(text, "*")
	continued := ""
	for _, name := range k.written {
		start, wild := strings.CutSuffix(name, "*")
		switch {
		case name == text, wild && strings.HasPrefix(text, start), family && strings.HasPrefix(name, prefix):
			return ""
		case strings.HasPrefix(name, text) && strings.IndexFunc(name[len(text):], isWord) != 0 && continued == "":
			continued = name
		}
	}
	alike := k.written
	if family {
		alike = families(k.written)
	}
	switch nearest, ok := suggest.Name(text, alike); {
	case continued != "":
		return fmt.Sprintf("no event has the type %q alone; %s* matches those whose type begins like %s", text,
			continued[:len(text)+1], continued)
	case ok:
		return fmt.Sprintf("no provider here is known to send events of the type %q. Did you mean %s?", text, nearest)
	case k.partial:
		return "" // one of the others may send it
	default:
		return fmt.Sprintf("no provider here is known to send events of the type %q; \"sallyport providers show NAME\" "+
			"lists the types of a provider", text)
	}
}

// families returns the patterns for the types that begin alike: issues.* for issues.opened.
func families(types []string) []string {
	var list []string
	for _, name := range types {
		for i, c := range name {
			if !isWord(c) && c != '*' {
				list = append(list, name[:i+1]+"*")
			}
		}
	}
	return list
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' || c == '-' }
