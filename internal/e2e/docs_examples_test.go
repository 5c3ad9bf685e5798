package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/reference"
)

// Every operation has samples in four languages, belongs to a group with a description, and has an example of each code
// of each error response. The groups begin with webhooks.
func TestDocumentIsForReaders(t *testing.T) {
	t.Parallel()
	root := published().root
	groups := map[string]bool{}
	tags, _ := root["tags"].([]any)
	for _, tag := range tags {
		require.NotEmpty(t, text(at(tag, "description")), text(at(tag, "name")))
		groups[text(at(tag, "name"))] = true
	}
	require.Equal(t, "Connections", at(tags[0], "name"))
	require.Equal(t, "Webhook events", at(tags[1], "name"))
	require.Equal(t, "Webhook subscriptions", at(tags[2], "name"))
	for _, op := range reference.API().Operations() {
		published := members(at(root, "paths", op.Path, strings.ToLower(op.Method)))
		require.True(t, groups[op.Tag], "%s: its group has no description", op.ID)
		list, _ := published["x-codeSamples"].([]any)
		var labels []string
		for _, v := range list {
			labels = append(labels, text(at(v, "label")))
		}
		require.Equal(t, []string{"curl", "Go", "TypeScript", "Python"}, labels, op.ID)
		for status, response := range members(published["responses"]) {
			if status < "400" {
				continue
			}
			for code := range strings.SplitSeq(text(at(response, "description")), ", ") {
				code = strings.Trim(code, "`")
				require.Contains(t, slices.Collect(maps.Values(exampleCodes(response))), code, "%s %s", op.ID, status)
			}
		}
	}
}

// The prefilled examples harm no one who sends them: a subscription from its example is disabled until its owner has
// read it, and a connection from its example has a secret, so that a sample of its provider can be sent next. Each
// path has its operations in the order of a reader, with deletion last.
func TestPrefilledExamples(t *testing.T) {
	t.Parallel()
	root := published().root
	example := func(path string) any {
		v := at(root, "paths", path, "post", "requestBody", "content", "application/json", "example")
		require.NotNil(t, v, path)
		return v
	}
	document, err := reference.API().Document()
	require.NoError(t, err)
	methods := map[string][]string{}
	path := ""
	for line := range strings.Lines(string(document)) {
		if name, found := strings.CutPrefix(line, `    "/`); found {
			path, _, _ = strings.Cut(name, `"`)
		} else if name, found := strings.CutPrefix(line, `      "`); found && path != "" {
			name, _, _ = strings.Cut(name, `"`)
			methods[path] = append(methods[path], name)
		}
	}
	require.Equal(t, []string{"get", "patch", "post", "delete"}, methods["connections/{provider}/{connection_id}"])
	for path, list := range methods {
		if i := slices.Index(list, "delete"); i >= 0 {
			require.Equal(t, len(list)-1, i, path)
		}
	}
	each(t, func(w *world) {
		var sub struct {
			Enabled bool `json:"enabled"`
		}
		w.call(w.dev(), http.MethodPost, "/webhook-subscriptions", example("/webhook-subscriptions")).want(w,
			http.StatusCreated).into(w, &sub)
		require.False(w.t, sub.Enabled)
		body := example("/connections")
		w.call(w.dev(), http.MethodPost, "/connections", body).want(w, http.StatusCreated)
		w.call(w.dev(), http.MethodPost, "/connections/"+text(at(body, "provider"))+"/"+text(at(body, "connection_id"))+
			"/webhook-sample", example("/connections/{provider}/{connection_id}/webhook-sample")).want(w, http.StatusCreated)
	})
}

// exampleCodes returns the code of each example of an error response, by the name of the example.
func exampleCodes(response any) map[string]string {
	codes := map[string]string{}
	for name, v := range members(at(response, "content", "application/json", "examples")) {
		codes[name] = text(at(published().resolve(v), "value", "error", "code"))
	}
	return codes
}

// The example of a body is one that its operation accepts, by its schema and by its rules. The validation error in the
// examples of an operation is one that it returns.
func TestExamplesOfBodiesAndValidationErrors(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		for _, s := range w.samples(f) {
			op := members(at(published().root, "paths", s.op.Path, strings.ToLower(s.op.Method)))
			if example := at(op, "requestBody", "content", "application/json", "example"); example != nil {
				schema := published().schema(w.t, "paths", s.op.Path, strings.ToLower(s.op.Method), "requestBody", "content",
					"application/json", "schema")
				require.NoError(w.t, schema.Validate(example), s.id)
			}
			details, _ := at(op, "responses", "422", "content", "application/json", "examples", "validation_error", "value",
				"error", "details").([]any)
			require.Len(w.t, details, 1, s.id)
			want := apperr.Detail{Location: text(at(details[0], "location")), Message: text(at(details[0], "message")),
				Rule: text(at(details[0], "rule"))}
			body, path := maps.Clone(s.body), s.url("", "")
			if field, ok := strings.CutPrefix(want.Location, "body."); ok {
				delete(body, field)
			} else {
				path += "?" + strings.TrimPrefix(want.Location, "query.") + "=true"
			}
			var content any
			if body != nil {
				content = body
			}
			e := w.call(w.user(w.env), s.op.Method, path, content).refused(w, http.StatusUnprocessableEntity,
				apperr.CodeValidation)
			require.Contains(w.t, e.Error.Details, want, s.id)
		}
	})
}

// sampleOf returns the program of an operation in a language.
func sampleOf(t *testing.T, o used, label string) string {
	t.Helper()
	list, _ := at(published().root, "paths", o.path, strings.ToLower(o.method), "x-codeSamples").([]any)
	for _, v := range list {
		if at(v, "label") == label {
			return text(at(v, "source"))
		}
	}
	require.Fail(t, "no sample", "%s in %s", o.id, label)
	return ""
}

// The samples of the most used operations are programs that work: each runs as it stands against a server, with the
// ids of what is there in place of those of the examples, and prints the response.
func TestSamplesRun(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	for label, program := range map[string]struct {
		file string
		args []string
	}{
		"curl":       {"sample.sh", []string{"sh"}},
		"Go":         {"sample.go", []string{"go", "run"}},
		"TypeScript": {"sample.mjs", []string{"node"}},
		"Python":     {"sample.py", []string{"python3"}},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			needSampleTools(t, label, program.args[0])
			onSQLite(t, func(w *world) {
				ids := strings.NewReplacer()
				for _, o := range mostUsed() {
					file := filepath.Join(w.t.TempDir(), program.file)
					require.NoError(w.t, os.WriteFile(file, []byte(ids.Replace(sampleOf(w.t, o, label))), 0o600))
					output := w.runSample(append(program.args, file)...)
					require.True(w.t, json.Valid([]byte(output)), "%s: %s", o.id, output)
					ids = w.exampleIDs()
				}
			})
		})
	}
}

// needSampleTools skips a test where the programs that run a language are missing.
func needSampleTools(t *testing.T, label, name string) {
	t.Helper()
	tools := []string{name}
	if label == "curl" {
		tools = append(tools, "curl")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			require.Empty(t, os.Getenv(requireNode), "%v: it is required here", err)
			t.Skipf("%v: the samples for %s do not run", err, label)
		}
	}
}

// runSample runs a program that must succeed and returns what it prints.
func (w *world) runSample(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), await.Limit)
	defer cancel()
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), "SALLYPORT_SERVER="+w.base, "SALLYPORT_API_KEY="+w.key)
	var out, messages bytes.Buffer
	c.Stdout, c.Stderr = &out, &messages
	require.NoError(w.t, c.Run(), "%s\n%s%s", strconv.Quote(strings.Join(args, " ")), out.String(), messages.String())
	return out.String()
}

// exampleIDs replaces the ids of the examples by those of the newest subscription and event, when the delivery of the
// event has been attempted, so that it can be replayed.
func (w *world) exampleIDs() *strings.Replacer {
	w.t.Helper()
	var subscriptions, events []struct {
		ID        string `json:"id"`
		EventUUID string `json:"event_uuid"`
		Attempts  int    `json:"attempt_count"`
	}
	ids := []string{}
	w.call(w.dev(), http.MethodGet, "/webhook-subscriptions?limit=1", nil).want(w, http.StatusOK).into(w, &subscriptions)
	if len(subscriptions) > 0 {
		ids = append(ids, exampleSubscription, subscriptions[0].ID)
		// That of the example is disabled.
		w.call(w.dev(), http.MethodPatch, "/webhook-subscriptions/"+subscriptions[0].ID, object{"enabled": true}).want(w,
			http.StatusOK)
	}
	await.Condition(w.t, "the attempt of the event", func() bool {
		w.call(w.dev(), http.MethodGet, "/webhook-events?limit=1", nil).want(w, http.StatusOK).into(w, &events)
		return len(events) == 0 || events[0].Attempts > 0
	})
	if len(events) > 0 {
		ids = append(ids, exampleEvent, events[0].EventUUID)
	}
	return strings.NewReplacer(ids...)
}
