package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// unexpected is the error of kong for a word that is no command.
var unexpected = regexp.MustCompile(`^unexpected argument (\S+?)(?:, did you mean .*)?$`)

// synonyms are the words that other command lines have for those of this one, the likeliest first.
func synonyms() map[string][]string {
	return map[string][]string{
		"tools": {"catalog"}, "toolkits": {"catalog"}, "apis": {"catalog"}, "find": {"search"},
		"query": {"search"}, "upload": {"import"}, "preview": {"diff"}, "changes": {"diff"}, "compare": {"diff"},
		"apply": {"activate"}, "rollback": {"activate"},
		"get": {"show", "get"}, "show": {"show", "get"}, "describe": {"show", "get"}, "view": {"show", "get"},
		"inspect": {"show", "get"}, "ls": {"list"}, "logs": {"events list"}, "add": {"add", "create", "import"},
		"new": {"add", "create"}, "create": {"create", "add", "import"}, "edit": {"update"}, "set": {"update"},
		"patch": {"update"}, "change": {"update"}, "remove": {"delete", "remove", "revoke"},
		"rm": {"delete", "remove", "revoke"}, "delete": {"delete", "remove", "revoke"},
		"pause": {"pause", "disable"}, "stop": {"pause", "disable"},
		"resume": {"resume", "enable"}, "start": {"serve", "resume", "enable"}, "run": {"serve"}, "server": {"serve"},
		"watch": {"tail"}, "stream": {"tail"}, "follow": {"tail"}, "retry": {"replay"}, "resend": {"replay"},
		"redeliver": {"replay"}, "send": {"publish"}, "emit": {"publish"}, "message": {"events"}, "messages": {"events"},
		"endpoint": {"subscriptions"}, "endpoints": {"subscriptions"}, "webhook": {"subscriptions", "webhooks"},
		"sources": {"connections"}, "destinations": {"subscriptions"}, "integrations": {"providers"}, "ping": {"test"},
		"rotate": {"rotate", "rotate-secret"}, "check": {"doctor", "check"}, "status": {"doctor"},
	}
}

// suggestCommand adds to the text of an error about a word that is no command which one is probably meant: one of the
// same group by another word, or that of another group.
func suggestCommand(root *kong.Application, err error, text string) string {
	var parse *kong.ParseError
	found := unexpected.FindStringSubmatch(text)
	if found == nil || !errors.As(err, &parse) {
		return text
	}
	word, group := found[1], root.Node
	var rest []string // the words after it
	for _, step := range parse.Context.Path {
		if step.Command != nil {
			group = step.Command
		}
	}
	if at := slices.Index(parse.Context.Args, word); at >= 0 {
		rest = parse.Context.Args[at+1:]
	}
	if strings.Contains(text, "did you mean") && group == root.Node {
		return text // a slip of the pen
	}
	meant := commandFor(group, word, rest)
	if meant == "" && group.Leaf() {
		meant = commandFor(root.Node, word, rest) // a group of others, such as openapi
	}
	if meant != "" {
		return "unexpected argument " + word + `, did you mean "sallyport ` + meant + `"?`
	}
	return text
}

// commandFor returns the path of the command below a group that a word means; empty if none does, or if it may be one
// of several.
func commandFor(group *kong.Node, word string, rest []string) string {
	for _, name := range append([]string{word}, synonyms()[word]...) {
		if own := slices.IndexFunc(group.Children, func(n *kong.Node) bool { return n.Name == name }); own >= 0 &&
			group.Parent != nil {
			return pathOf(group.Children[own])
		}
		if found := below(group, name); len(found) == 1 {
			path := found[0]
			if len(rest) > 0 && group.Parent == nil {
				// The name of a group by another word, with its command after it.
				for _, longer := range append([]string{rest[0]}, synonyms()[rest[0]]...) {
					if len(below(group, path+" "+longer)) == 1 {
						return path + " " + longer
					}
				}
			}
			return path
		}
	}
	return ""
}

// pathOf returns the words of a command after the program's name.
func pathOf(command *kong.Node) string { return strings.TrimPrefix(command.FullPath(), "sallyport ") }

// below returns the paths, from the root, of the commands below a group that end with these words.
func below(group *kong.Node, words string) (paths []string) {
	for _, child := range group.Children {
		path := pathOf(child)
		if path == words || strings.HasSuffix(path, " "+words) {
			paths = append(paths, path)
		}
		paths = append(paths, below(child, words)...)
	}
	return paths
}
