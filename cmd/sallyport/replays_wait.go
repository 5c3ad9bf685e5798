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

// waitInterval is how often it is looked whether a bulk replay has ended.
const waitInterval = time.Second

// await waits until the bulk replay of an answer has ended, shows it, and fails where it was not completed. It tells
// how far the job is whenever that has changed by a hundredth. A server that is away is waited for, because the job
// goes on when it is back. An interrupt ends the wait and leaves the job.
func (f apiFlags) await(ctx context.Context, e *env, api *apiclient.Client, answer json.RawMessage) error {
	r, err := into[replayRow](answer)
	if err != nil {
		return err
	}
	for told, away := "", false; !r.ended(); {
		if line := r.Status + ", " + r.percent(); line != told {
			told = line
			e.note("%s", terminal.Inline(fmt.Sprintf("%s: %d started, %d succeeded, %d failed.", line, r.Counts.Replayed,
				r.Counts.Succeeded, r.Counts.Failed)))
		}
		a, err := f.look(ctx, e, api, r.ID)
		switch {
		case ctx.Err() != nil:
			e.note("%s goes on. To wait for it again: sallyport replays show %[1]s --wait", terminal.Inline(r.ID))
			return exitError(exitFailed)
		case apiclient.Temporary(err):
			if !away {
				e.note("%s The wait goes on.", terminal.Inline(sentence(err.Error())))
			}
			away = true
			continue
		case err != nil:
			return err
		}
		away, answer = false, a.Body
		if r, err = into[replayRow](answer); err != nil {
			return err
		}
	}
	if err := f.replay(e, answer); err != nil {
		return err
	}
	if r.Status != "completed" {
		return exitError(exitFailed)
	}
	return nil
}

// look asks for the job when it is time to.
func (apiFlags) look(ctx context.Context, e *env, api *apiclient.Client, id string) (apiclient.Answer, error) {
	t := e.clock.NewTimer(waitInterval)
	defer t.Stop()
	select {
	case <-t.C():
		return api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: replaysPath + apiclient.Path(id)})
	case <-ctx.Done():
		return apiclient.Answer{}, ctx.Err()
	}
}
