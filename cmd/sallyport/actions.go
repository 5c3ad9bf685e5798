package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type actionsCommand struct {
	List  actionsList  `cmd:"" help:"List the actions of a provider over the API."`
	Show  actionsShow  `cmd:"" help:"Show an action with its inputs and its risk over the API."`
	Run   actionsRun   `cmd:"" help:"Run an action with the credentials of a connection, and print what the provider returns."`
	Check actionsCheck `cmd:"" help:"Show whether an action would be run, without running it. Exits with 1 if not."`
}

type actionsList struct {
	Provider     string `arg:"" name:"provider" help:"The provider, or the key of a provider configuration."`
	actionFilter `embed:""`
	lengthFlags  `embed:""`
	apiFlags     `embed:""`
}

// Run lists the actions.
func (c *actionsList) Run(ctx context.Context, e *env) error {
	show := catalogShow{Provider: c.Provider, actionFilter: c.actionFilter, lengthFlags: c.lengthFlags,
		apiFlags: c.apiFlags}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		_, rows, more, err := show.pages(ctx, api, catalogPath+apiclient.Path(c.Provider), c.query())
		if err != nil {
			return err
		}
		if c.JSON {
			return printRaw(e.stdout, array(rows))
		}
		t := e.actionTable()
		for _, row := range rows {
			if err := addAction(t, row); err != nil {
				return err
			}
		}
		if err := e.section("Actions", len(rows), t); err != nil {
			return err
		}
		if more {
			e.note("There are more actions. --limit shows more, and --all shows all.")
		}
		return nil
	})
}

type actionsShow struct {
	Action   string `arg:"" name:"action" help:"The action, as PROVIDER/ACTION."`
	apiFlags `embed:""`
}

// Run shows the action.
func (c *actionsShow) Run(ctx context.Context, e *env) error {
	provider, action, err := splitAction(c.Action)
	if err != nil {
		return err
	}
	return (&catalogShow{Provider: provider, Action: action, apiFlags: c.apiFlags}).Run(ctx, e)
}

// splitAction reads PROVIDER/ACTION, or the name of a tool.
func splitAction(text string) (provider, action string, err error) {
	for _, separator := range []string{"/", toolSeparator} {
		if before, after, found := strings.Cut(text, separator); found && before != "" && after != "" {
			return before, after, nil
		}
	}
	return "", "", usageError("name the action as PROVIDER/ACTION, such as github/create_issue")
}

type actionsRun struct {
	Action         string `arg:"" name:"action" help:"The action, as PROVIDER/ACTION."`
	ConnectionID   string `required:"" name:"connection-id" placeholder:"ID" aliases:"connection" help:"The connection whose credentials are used. --connection is the same flag."`
	actionInput    `embed:""`
	IdempotencyKey string        `placeholder:"KEY" help:"Run the action once for this key: within 24 hours the same command returns what came of the first."`
	MaxTime        time.Duration `default:"30s" placeholder:"DURATION" help:"The time that the call may take, at most 2m."`
	DryRun         bool          `help:"Print the request that would be sent, without its credentials, instead of sending it."`
	Yes            bool          `short:"y" help:"Ask for nothing that is missing."`
	apiFlags       `embed:""`
}

// actionInput holds the flags for the input of an action.
type actionInput struct {
	Set       []string `short:"s" sep:"none" placeholder:"NAME=VALUE" help:"An input. Its value is text, a number or true as the action's schema says; arrays and objects are JSON. Repeatable."`
	InputJSON string   `name:"input-json" placeholder:"JSON" xor:"input" help:"The input as a JSON object; --set replaces its members."`
	InputFile string   `placeholder:"PATH" xor:"input" help:"JSON file with the input; - reads standard input."`
}

// executionRow holds the properties of an execution that commands show.
type executionRow struct {
	ID           string          `json:"execution_id"`
	Status       string          `json:"status"`
	Provider     string          `json:"provider"`
	ConnectionID string          `json:"connection_id"`
	Action       string          `json:"action"`
	Version      string          `json:"version"`
	Input        json.RawMessage `json:"input"`
	Output       json.RawMessage `json:"output"`
	Truncated    bool            `json:"output_truncated"`
	OutputURL    string          `json:"output_url"`
	Upstream     *struct {
		Status    int    `json:"status"`
		RequestID string `json:"request_id"`
	} `json:"upstream"`
	Risk     riskRow `json:"risk"`
	Attempts []struct {
		Number     int    `json:"number"`
		DurationMS int64  `json:"duration_ms"`
		Status     int    `json:"status"`
		Code       string `json:"code"`
	} `json:"attempts"`
	Timing struct {
		UpstreamMS float64 `json:"upstream_ms"`
		TotalMS    float64 `json:"total_ms"`
	} `json:"timing"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Source  string `json:"source"`
		Effect  string `json:"effect"`
	} `json:"error"`
	Replay     bool       `json:"idempotent_replay"`
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at"`
	Request    *struct {
		Method  string            `json:"method"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	} `json:"request"`
}

// executeMargin is how much longer than its call an execution may take.
const executeMargin = 10 * time.Second

// Run runs the action.
func (c *actionsRun) Run(ctx context.Context, e *env) error {
	provider, action, err := splitAction(c.Action)
	if err != nil {
		return err
	}
	if c.MaxTime < time.Second || c.MaxTime > 2*time.Minute {
		return usageError("--max-time must be 1s to 2m")
	}
	flags := c.apiFlags
	return e.withAPI(flags, func(api *apiclient.Client) error {
		input, err := c.input(ctx, e, api, provider, action, !c.Yes && isTerminal(e.stdin))
		if err != nil {
			return err
		}
		body := map[string]any{"provider": provider, "connection_id": c.ConnectionID, "action": action, "input": input,
			"timeout_ms": c.MaxTime.Milliseconds()}
		if c.IdempotencyKey != "" {
			body["idempotency_key"] = c.IdempotencyKey
		}
		if c.DryRun {
			body["dry_run"] = true
		}
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: "/actions/execute", Body: body,
			Timeout: c.MaxTime + executeMargin})
		if err != nil {
			return err
		}
		if c.JSON {
			return printRaw(e.stdout, a.Body)
		}
		r, err := into[executionRow](a.Body)
		if err != nil {
			return err
		}
		if r.Request != nil {
			return r.printRequest(e)
		}
		return r.printOutput(e)
	})
}

// printOutput prints what the provider returned on standard output, and the rest as a note.
func (r *executionRow) printOutput(e *env) error {
	if err := printIndented(e.stdout, r.Output); err != nil {
		return err
	}
	note := fmt.Sprintf("Execution %s: %s after %.0f ms", r.ID, r.Status, r.Timing.TotalMS)
	if n := len(r.Attempts); n > 1 {
		note += fmt.Sprintf(" and %d attempts", n)
	}
	if r.Replay {
		note += ", by an earlier request with the same key"
	}
	e.note("%s.", terminal.Inline(note))
	if r.Truncated {
		e.note("The output is only the beginning of what the provider returned.")
	}
	return nil
}

// printRequest prints the request of a dry run.
func (r *executionRow) printRequest(e *env) error {
	if err := e.printFields([][2]string{{"Request", r.Request.Method + " " + r.Request.URL},
		{"Risk", r.Risk.Level + " (" + r.Risk.Operation + ")"}}); err != nil {
		return err
	}
	if err := e.printHeaders(r.Request.Headers); err != nil {
		return err
	}
	if r.Request.Body == "" {
		return nil
	}
	_, err := fmt.Fprintln(e.stdout, "\n"+terminal.Text(r.Request.Body))
	return err
}

// printIndented prints JSON for people.
func printIndented(w io.Writer, text json.RawMessage) error {
	if len(text) == 0 {
		text = json.RawMessage("null")
	}
	return printRaw(w, text)
}

// input returns the input of the action: that of a file or a flag, with the members of --set and, if it asks, with what
// is still missing.
func (c *actionInput) input(ctx context.Context, e *env, api *apiclient.Client, provider, action string,
	asks bool) (map[string]any, error) {
	input := map[string]any{}
	if text := []byte(c.InputJSON); len(text) > 0 || c.InputFile != "" {
		name := "--input-json"
		if c.InputFile != "" {
			var err error
			if text, err = e.readUpTo(c.InputFile, maxActionInput); err != nil {
				return nil, err
			}
			name = named(c.InputFile)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil || members == nil {
			return nil, usageError(name + " must contain one JSON object")
		}
		for name, v := range members {
			input[name] = v
		}
	}
	if len(c.Set) == 0 && !asks {
		return input, nil
	}
	a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: "/actions" + apiclient.Path(provider, action)})
	if err != nil {
		return nil, err
	}
	d, err := into[actionDetail](a.Body)
	if err != nil {
		return nil, err
	}
	for _, given := range c.Set {
		name, text, found := strings.Cut(given, "=")
		if !found {
			return nil, usageError("--set takes NAME=VALUE, such as --set title=Hello")
		}
		if _, known := d.Input.Properties[name]; !known {
			return nil, usageError(fmt.Sprintf("the action has no input %q; its inputs are %s", name, d.Input.names()))
		}
		if input[name], err = inputValue(d.Input.Properties[name], text); err != nil {
			return nil, usageError(fmt.Sprintf("--set %s must be %s", name, typeOf(d.Input.Properties[name], 0)))
		}
	}
	if !asks {
		return input, nil
	}
	return input, e.askFor(&d.Input, input)
}

// maxActionInput is how large the input of an action can be.
const maxActionInput = 16 << 20

// inputValue reads the text of an input as its schema wants it.
func inputValue(schema json.RawMessage, text string) (any, error) {
	var s shape
	if err := json.Unmarshal(schema, &s); err != nil {
		return text, nil //nolint:nilerr // a schema that accepts everything
	}
	types := typeNames(s.Type)
	for _, part := range slices.Concat(s.AnyOf, s.OneOf) {
		var of shape
		if json.Unmarshal(part, &of) == nil {
			types = append(types, typeNames(of.Type)...)
		}
	}
	value := json.RawMessage(text)
	var decoded any
	if json.Unmarshal(value, &decoded) != nil {
		if len(types) == 0 || slices.Contains(types, "string") {
			return text, nil
		}
		return nil, errNotThatType
	}
	kind := kindOf(decoded, text)
	switch {
	case len(types) == 0, slices.Contains(types, kind), kind == "integer" && slices.Contains(types, "number"):
		return value, nil
	case slices.Contains(types, "string"):
		return text, nil
	default:
		return nil, errNotThatType
	}
}

var errNotThatType = usageError("it has another type")

// kindOf names the type of a value of JSON.
func kindOf(v any, text string) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		if strings.ContainsAny(text, ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return "" // a string with its quotes: it is taken as it stands
	}
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// askFor asks at the terminal for each required input that is missing.
func (e *env) askFor(s *objectSchema, input map[string]any) error {
	lines := bufio.NewReader(e.stdin)
	for _, name := range s.Required {
		if _, given := input[name]; given {
			continue
		}
		schema := s.Properties[name]
		for {
			if _, err := fmt.Fprintf(e.stderr, "%s (%s): ", terminal.Inline(name), typeOf(schema, 0)); err != nil {
				return err
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				return usageError("the input " + name + " is missing")
			}
			v, err := inputValue(schema, strings.TrimRight(line, "\r\n"))
			if err == nil {
				input[name] = v
				break
			}
			e.note("It must be %s.", typeOf(schema, 0))
		}
	}
	return nil
}

type executionsCommand struct {
	List executionsList `cmd:"" help:"List executions, newest first."`
	Show executionsShow `cmd:"" help:"Show an execution with its input and its output."`
}

const executionsPath = "/actions/executions"

type executionsList struct {
	Provider     []string `placeholder:"KEY" help:"Only executions at these provider configurations."`
	ConnectionID []string `name:"connection-id" placeholder:"ID" aliases:"connection" help:"Only executions with these connections. --connection is the same flag."`
	Action       []string `placeholder:"ACTION" help:"Only executions of these actions."`
	Status       []string `enum:"running,succeeded,failed,denied" placeholder:"STATUS" help:"Only executions in these states: running, succeeded, failed, denied."`
	ErrorCode    []string `placeholder:"CODE" help:"Only executions whose error has one of these codes."`
	paging       `embed:""`
	apiFlags     `embed:""`
}

// Run lists the executions.
func (c *executionsList) Run(ctx context.Context, e *env) error {
	q := url.Values{"provider": c.Provider, "connection_id": c.ConnectionID, "action": c.Action, "status": c.Status,
		"error_code": c.ErrorCode, "order": {c.Order}}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(terminal.Column{Title: "EXECUTION", Fixed: true}, terminal.Column{Title: "CREATED (UTC)", Fixed: true},
			terminal.Column{Title: "ACTION"}, terminal.Column{Title: "CONNECTION"},
			terminal.Column{Title: "STATUS", Fixed: true, Tone: executionTone}, terminal.Column{Title: "MS"},
			terminal.Column{Title: "ERROR"})
		return e.list(ctx, api, apiclient.Request{Path: executionsPath, Query: q}, c.paging, c.JSON, "executions", t,
			func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[executionRow](row)
				failure := ""
				if r.Error != nil {
					failure = r.Error.Code
				}
				t.Row(r.ID, second(r.CreatedAt), r.Provider+"/"+r.Action, r.ConnectionID, r.Status,
					strconv.FormatFloat(r.Timing.TotalMS, 'f', 0, 64), failure)
				return err
			})
	})
}

func executionTone(status string) terminal.Tone {
	switch status {
	case "succeeded":
		return terminal.Good
	case "failed", "denied":
		return terminal.Bad
	default:
		return terminal.Busy
	}
}

type executionsShow struct {
	ID       string `arg:"" name:"execution_id" help:"The execution, as executions list names it."`
	apiFlags `embed:""`
}

// Run shows the execution.
func (c *executionsShow) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: executionsPath + apiclient.Path(c.ID)})
		if err != nil {
			return err
		}
		if c.JSON {
			return printRaw(e.stdout, a.Body)
		}
		r, err := into[executionRow](a.Body)
		if err != nil {
			return err
		}
		return r.print(e)
	})
}

func (r *executionRow) print(e *env) error {
	fields := [][2]string{{"Execution", r.ID}, {"Action", r.Provider + "/" + r.Action}, {"Connection", r.ConnectionID},
		{"Status", r.Status}, {"Created", second(r.CreatedAt)}, {"Risk", r.Risk.Level + " (" + r.Risk.Operation + ")"},
		{"Took", fmt.Sprintf("%.0f ms, %.0f of them at the provider", r.Timing.TotalMS, r.Timing.UpstreamMS)}}
	if r.Upstream != nil {
		fields = append(fields, [2]string{"Provider's status", strconv.Itoa(r.Upstream.Status)})
	}
	if r.Error != nil {
		fields = append(fields, [2]string{"Error", r.Error.Message + " (" + r.Error.Code + ")"},
			[2]string{"Effect", r.Error.Effect})
	}
	if err := e.printFields(fields); err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		text  json.RawMessage
	}{{"Input", r.Input}, {"Output", r.Output}} {
		if len(part.text) == 0 || string(part.text) == "null" {
			continue
		}
		if _, err := fmt.Fprintln(e.stdout, "\n"+part.title); err != nil {
			return err
		}
		if err := printIndented(e.stdout, part.text); err != nil {
			return err
		}
	}
	return nil
}
