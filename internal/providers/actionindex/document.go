package actionindex

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/platform/fulltext"
	"sallyport/internal/providers/actions"
)

// documentOf is what a search finds of an action. The ranking was tuned with it.
func documentOf(a *actions.Action, provider string) fulltext.Document {
	return fulltext.Document{Name: wordsOf(a), Title: a.Title, Provider: provider, Tags: a.Tags, Path: a.Path,
		Description: a.Description, Kind: kindOf(a), Prior: priorOf(a)}
}

// wordsOf is the name without the method at its beginning, which says less than the kind, and without a hash at its
// end.
func wordsOf(a *actions.Action) string {
	words := strings.Split(a.Name, "_")
	if words[0] == strings.ToLower(a.Method) && len(words) > 1 && words[0] != "delete" {
		words = words[1:]
	}
	if last := words[len(words)-1]; len(words) > 1 && len(last) == 6 && strings.Trim(last, "0123456789abcdef") == "" {
		words = words[:len(words)-1]
	}
	return strings.Join(words, "_")
}

// verbs are words in names of actions that say what these do.
func verbs() []string {
	return []string{"create", "add", "insert", "list", "get", "retrieve", "fetch", "search", "find", "query", "lookup",
		"delete", "remove", "destroy", "update", "edit", "modify", "set", "send", "upload", "download", "cancel", "archive",
		"merge", "move", "copy", "invite", "assign", "approve", "retry", "capture", "refund", "pause", "start", "stop",
		"append", "import", "export", "publish", "schedule", "post"}
}

// kindOf says what an action does: by a verb in its name, and by its method and path if there is none.
func kindOf(a *actions.Action) string {
	for w := range strings.SplitSeq(wordsOf(a), "_") {
		if !slices.Contains(verbs(), w) {
			continue
		}
		if w == "get" && a.Method == http.MethodGet && !strings.HasSuffix(a.Path, "}") {
			return "get list"
		}
		return w
	}
	switch a.Method {
	case http.MethodGet:
		if strings.HasSuffix(a.Path, "}") {
			return "get"
		}
		return "list get"
	case http.MethodPost:
		return "create"
	case http.MethodDelete:
		return "delete"
	case http.MethodPut, http.MethodPatch:
		return "update"
	default:
		return ""
	}
}

// version is a part of a path that names no thing.
var version = regexp.MustCompile(`^(rest|v?[0-9.]+(beta[0-9]*)?)$`)

// priorOf lowers actions on parts of parts, and deprecated ones.
func priorOf(a *actions.Action) float32 {
	const each, most, deprecated = 0.03, 8, 0.4
	parts := 0
	for part := range strings.SplitSeq(strings.Trim(a.Path, "/"), "/") {
		if !strings.HasPrefix(part, "{") && !strings.Contains(part, "api") && !version.MatchString(part) {
			parts++
		}
	}
	prior := -each * float32(min(parts, most))
	if a.Deprecated {
		prior -= deprecated
	}
	return prior
}
