package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/suggest"
)

// inFlags is an error of the API whose text names flags of the command instead of fields, where there is one.
type inFlags struct {
	error
	text string
}

func (e inFlags) Error() string { return e.text }
func (e inFlags) Unwrap() error { return e.error }

// namingFlags makes an error of the command's request name the flags that the user has. Properties that come from a
// file of --from-file keep the names that they have there.
func namingFlags(command *kong.Node, err error) error {
	var refused *apiclient.Error
	if command == nil || !errors.As(err, &refused) || len(refused.Details) == 0 {
		return err
	}
	given := map[string]*kong.Flag{}
	fromFile := false
	for _, group := range command.AllFlags(true) {
		for _, f := range group {
			given[f.Name] = f
			fromFile = fromFile || f.Name == "from-file" && f.Set
		}
	}
	text := refused.Text(func(location string) string {
		part, name, _ := strings.Cut(location, ".")
		if flag := flagOf(given, name); flag != "" && (part == "body" && !fromFile || part == "query") {
			return flag
		}
		if name != "" && (part == "body" || part == "query" || part == "path") {
			return name
		}
		return location
	})
	return inFlags{error: err, text: strings.Replace(err.Error(), refused.Error(), text, 1)}
}

// index is the place of an item of a list in a location.
var index = regexp.MustCompile(`\[\d+\]`)

// flagOf returns how the user writes the field: a flag of the same name without the objects around it, of a file with
// its value, or of NAME=VALUE with one member; empty if the command has none.
func flagOf(given map[string]*kong.Flag, field string) string {
	segments := strings.Split(index.ReplaceAllString(field, ""), ".")
	last := len(segments) - 1
	for i := range segments {
		name := strings.ReplaceAll(strings.Join(segments[i:], "-"), "_", "-")
		for _, form := range []string{name, strings.TrimSuffix(name, "s"), name + "-file"} {
			if given[form] != nil {
				return "--" + form
			}
		}
		if i+1 != last {
			continue
		}
		name = strings.ReplaceAll(segments[i], "_", "-")
		for _, form := range []string{name, strings.TrimSuffix(name, "s")} {
			if f := given[form]; f != nil && f.IsMap() {
				return "--" + form + " " + segments[last] + "=…"
			}
		}
	}
	return ""
}

// choices is the error of kong for a flag with a closed set of values.
var choices = regexp.MustCompile(`^(.* must be one of )(.*)( but got )"(.*)"$`)

// explainChoice adds the value that is probably meant to kong's error of a flag that has a choice. An empty value is
// no choice that a person makes.
func explainChoice(message string) string {
	m := choices.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	var values []string
	for v := range strings.SplitSeq(strings.ReplaceAll(m[2], `"`, ""), ",") {
		if v != "" {
			values = append(values, v)
		}
	}
	question := suggest.Question(m[4], values, nil)
	for _, v := range values {
		if question == "" && len(m[4]) > 2 && strings.HasPrefix(v, strings.ToLower(m[4])) {
			question = ". Did you mean " + v + "?"
		}
	}
	return m[1] + strings.Join(values, ", ") + m[3] + `"` + m[4] + `"` + question
}
