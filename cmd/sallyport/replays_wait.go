package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

// waitInterval is the time between two requests for the state of what a command waits for.
const waitInterval = time.Second

// awaitReplay waits until the bulk replay in a response has ended, shows it, and fails if it was not completed. It
// reports each change of the progress by one percent. It keeps waiting while the server is away, because the job
// continues afterwards. An interrupt ends the wait, not the job.
func (f apiFlags) awaitReplay(ctx context.Context, e *env, api *apiclient.Client, body json.RawMessage) error {
	r, err := into[replayRow](body)
	if err != nil {
		return err
	}
	for reported, away := "", false; !r.ended(); {
		if line := r.Status + ", " + r.percent(); line != reported {
			reported = line
			e.note("%s", terminal.Inline(fmt.Sprintf("%s: %d started, %d succeeded, %d failed at first.", line,
				r.Counts.Replayed, r.Counts.Succeeded, r.Counts.Failed)))
		}
		a, err := e.poll(ctx, api, replaysPath+apiclient.Path(r.ID))
		switch {
		case ctx.Err() != nil:
			e.note("%s continues. To wait for it again: sallyport replays show %[1]s --wait", terminal.Inline(r.ID))
			return exitError(exitFailed)
		case apiclient.Temporary(err):
			if !away {
				e.note("%s Still waiting.", terminal.Inline(sentence(err.Error())))
			}
			away = true
			continue
		case err != nil:
			return err
		}
		away, body = false, a.Body
		if r, err = into[replayRow](body); err != nil {
			return err
		}
	}
	if err := f.replay(e, body); err != nil {
		return err
	}
	if r.Status != "completed" {
		return exitError(exitFailed)
	}
	return nil
}

// poll gets the resource at the path when the next request is due.
func (e *env) poll(ctx context.Context, api *apiclient.Client, path string) (apiclient.Response, error) {
	t := e.clock.NewTimer(waitInterval)
	defer t.Stop()
	select {
	case <-t.C():
		return api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: path})
	case <-ctx.Done():
		return apiclient.Response{}, ctx.Err()
	}
}
