package fulltext_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/fulltext"
)

// documentOf is how an action becomes a document.
func documentOf(a *action) fulltext.Document {
	return fulltext.Document{
		Name: nameOf(a), Title: a.Title, Provider: a.Provider + " " + a.Display, Tags: a.Tags, Path: a.Path,
		Description: a.Description, Kind: kindOf(a), Prior: priorOf(a),
	}
}

// nameOf is the name without the method at its beginning, which says less than the kind, and without a hash at its end.
func nameOf(a *action) string {
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
func kindOf(a *action) string {
	words := strings.Split(nameOf(a), "_")
	for _, w := range words {
		if slices.Contains(verbs(), w) {
			if w == "get" && a.Method == http.MethodGet && !strings.HasSuffix(a.Path, "}") {
				return "get list"
			}
			return w
		}
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
	}
	return ""
}

// version is a part of a path that names no thing.
var version = regexp.MustCompile(`^(rest|v?[0-9.]+(beta[0-9]*)?)$`)

// priorOf lowers actions on parts of parts, and deprecated ones.
func priorOf(a *action) float32 {
	prior := float32(0)
	parts := 0
	for part := range strings.SplitSeq(strings.Trim(a.Path, "/"), "/") {
		if !strings.HasPrefix(part, "{") && !strings.Contains(part, "api") && !version.MatchString(part) {
			parts++
		}
	}
	prior -= 0.03 * float32(min(parts, 8))
	if a.Deprecated {
		prior -= 0.4
	}
	return prior
}

// segmentsOf makes a segment for each provider, in the order in which they come.
func segmentsOf(t testing.TB, list []action) (segments []*fulltext.Segment, members [][]*action) {
	t.Helper()
	var builders []*fulltext.Builder
	places := map[string]int{}
	for i := range list {
		a := &list[i]
		at, ok := places[a.Provider]
		if !ok {
			at = len(builders)
			places[a.Provider] = at
			builders, members = append(builders, &fulltext.Builder{}), append(members, nil)
		}
		builders[at].Add(documentOf(a))
		members[at] = append(members[at], a)
	}
	for _, b := range builders {
		s, err := b.Build()
		require.NoError(t, err)
		segments = append(segments, s)
	}
	return segments, members
}
