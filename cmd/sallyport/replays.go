package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

type replaysCommand struct {
	List   replaysList   `cmd:"" help:"List bulk replays."`
	Show   replaysShow   `cmd:"" help:"Show a bulk replay and its progress."`
	Create replaysCreate `cmd:"" help:"Replay the events that the filters select, oldest first. It needs a filter or --all."`
	Pause  replaysPause  `cmd:"" help:"Pause a bulk replay: it starts no deliveries until it is resumed."`
	Resume replaysResume `cmd:"" help:"Resume a paused bulk replay."`
	Cancel replaysCancel `cmd:"" help:"Cancel a bulk replay; deliveries that it started are still sent."`
}

const replaysPath = "/webhook-replays"

// replayCounts counts the deliveries of a bulk replay by result.
type replayCounts struct {
	Matched        int64            `json:"matched"`
	Replayed       int64            `json:"replayed"`
	InProgress     int64            `json:"in_progress"`
	Succeeded      int64            `json:"succeeded"`
	Failed         int64            `json:"failed"`
	Other          int64            `json:"other"`
	Skipped        int64            `json:"skipped"`
	SkippedReasons map[string]int64 `json:"skipped_reasons"`
}

func (c *replayCounts) skipped() string {
	text := strconv.FormatInt(c.Skipped, 10)
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(c.SkippedReasons)) {
		if n := c.SkippedReasons[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", reason, n))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// replayRow holds the properties of a bulk replay that commands show.
type replayRow struct {
	ID               string       `json:"id"`
	Status           string       `json:"status"`
	ToSubscriptionID *string      `json:"to_subscription_id"`
	RatePerSecond    int64        `json:"rate_per_second"`
	Counts           replayCounts `json:"counts"`
	Progress         float64      `json:"progress"`
	Error            *failureRow  `json:"error"`
	CreatedBy        struct {
		Name string `json:"name"`
	} `json:"created_by"`
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

// ended reports whether the job is finished.
func (r *replayRow) ended() bool {
	return r.Status == "completed" || r.Status == "cancelled" || r.Status == "failed"
}

// percent returns the job's progress. An unfinished job never shows 100 %.
func (r *replayRow) percent() string { return strconv.Itoa(int(100*r.Progress)) + " %" }

func (r *replayRow) print(e *env) error {
	fields := [][2]string{
		{"Replay", r.ID}, {"Status", r.Status}, {"Progress", r.percent()},
		{"To", value(r.ToSubscriptionID)}, {"Rate", "up to " + strconv.FormatInt(r.RatePerSecond, 10) + " a second"},
		{"Events", strconv.FormatInt(r.Counts.Matched, 10)}, {"Started", strconv.FormatInt(r.Counts.Replayed, 10)},
		{"Succeeded", strconv.FormatInt(r.Counts.Succeeded, 10)}, {"Failed at first", strconv.FormatInt(r.Counts.Failed, 10)},
		{"In progress", strconv.FormatInt(r.Counts.InProgress, 10)}, {"Ended otherwise", strconv.FormatInt(r.Counts.Other,
			10)},
		{"Skipped", r.Counts.skipped()}, {"Created by", r.CreatedBy.Name}, {"Created", clock.Wire(r.CreatedAt)},
	}
	if r.FinishedAt != nil {
		fields = append(fields, [2]string{"Ended", clock.Wire(*r.FinishedAt)})
	}
	if r.Error != nil {
		fields = append(fields, [2]string{"Error", r.Error.Code + ": " + r.Error.Message})
	}
	return e.printFields(fields)
}

func replayTone(status string) terminal.Tone {
	switch status {
	case "completed":
		return terminal.Good
	case "queued", "running", "paused":
		return terminal.Busy
	case "failed":
		return terminal.Bad
	default:
		return terminal.Plain
	}
}

type replaysList struct {
	Status   []string `placeholder:"STATUS" enum:"queued,running,paused,completed,cancelled,failed" help:"Only those in one of these states: queued, running, paused, completed, cancelled, failed."`
	paging   `embed:""`
	apiFlags `embed:""`
}

// Run lists the bulk replays.
func (c *replaysList) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(terminal.Column{Title: "REPLAY", Fixed: true}, terminal.Column{Title: "CREATED (UTC)", Fixed: true},
			terminal.Column{Title: "STATUS", Tone: replayTone}, terminal.Column{Title: "DONE"},
			terminal.Column{Title: "STARTED"}, terminal.Column{Title: "SUCCEEDED"}, terminal.Column{Title: "FAILED AT FIRST"},
			terminal.Column{Title: "CREATED BY"})
		q := url.Values{"status": c.Status, "order": {c.Order}}
		return e.list(ctx, api, apiclient.Request{Path: replaysPath, Query: q}, c.paging, c.JSON, "replays", t,
			func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[replayRow](row)
				t.Row(r.ID, second(r.CreatedAt), r.Status, r.percent(), strconv.FormatInt(r.Counts.Replayed, 10),
					strconv.FormatInt(r.Counts.Succeeded, 10), strconv.FormatInt(r.Counts.Failed, 10), r.CreatedBy.Name)
				return err
			})
	})
}

// replayID names one bulk replay.
type replayID struct {
	ID       string `arg:"" name:"replay_id" help:"The bulk replay."`
	apiFlags `embed:""`
}

// call requests the job, or an operation on it, and shows the response.
func (c *replayID) call(ctx context.Context, e *env, method string, wait bool, operation ...string) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: method, Path: replaysPath +
			apiclient.Path(append([]string{c.ID}, operation...)...)})
		if err != nil {
			return err
		}
		if wait {
			return c.awaitReplay(ctx, e, api, a.Body)
		}
		return c.replay(e, a.Body)
	})
}

// replay prints the bulk replay in a response.
func (f apiFlags) replay(e *env, body json.RawMessage) error {
	if f.JSON {
		return printRaw(e.stdout, body)
	}
	r, err := into[replayRow](body)
	if err != nil {
		return err
	}
	return r.print(e)
}

type replaysShow struct {
	replayID `embed:""`
	Wait     bool `help:"Wait until the job has ended, and report progress; exit with 1 if it failed or was cancelled."`
}

// Run shows the bulk replay.
func (c *replaysShow) Run(ctx context.Context, e *env) error {
	return c.call(ctx, e, http.MethodGet, c.Wait)
}

type replaysPause struct {
	replayID `embed:""`
}

// Run pauses the bulk replay.
func (c *replaysPause) Run(ctx context.Context, e *env) error {
	return c.call(ctx, e, http.MethodPost, false, "pause")
}

type replaysResume struct {
	replayID `embed:""`
}

// Run resumes the bulk replay.
func (c *replaysResume) Run(ctx context.Context, e *env) error {
	return c.call(ctx, e, http.MethodPost, false, "resume")
}

type replaysCancel struct {
	replayID `embed:""`
}

// Run cancels the bulk replay.
func (c *replaysCancel) Run(ctx context.Context, e *env) error {
	return c.call(ctx, e, http.MethodPost, false, "cancel")
}
