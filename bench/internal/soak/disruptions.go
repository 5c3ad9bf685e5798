//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// episode is a disruption that happened.
type episode struct {
	round    int
	name     string
	detail   string
	from, to time.Time
}

func (e episode) String() string {
	return fmt.Sprintf("round %d: %s (%s), %s to %s", e.round, e.name, e.detail, stamp(e.from), stamp(e.to))
}

// disruption is a kind of disruption. Its function does everything, up to the moment when the nodes can work again, and
// returns what it has drawn. It draws everything before it does anything, so that a seed always means the same
// disruptions.
type disruption struct {
	name string
	// needs says where it is possible; nil means everywhere.
	needs func(r *run) bool
	run   func(ctx context.Context, r *run, random *rand.Rand) (detail string, err error)
}

func onPostgres(r *run) bool { return r.postgres != nil }

func disruptions() []disruption {
	return []disruption{
		{"kill -9", nil, killNode},
		{"SIGTERM", nil, terminateNode},
		{"SIGSTOP", nil, freezeNode},
		{"kill of a stopped node", nil, killFrozenNode},
		{"clock step", nil, stepClock},
		{"subscription disabled", nil, pauseSubscription},
		{"forced replays", nil, replayEvents},
		{"full disk", func(r *run) bool { return r.disk.mounted }, fillDisk},
		{"PostgreSQL stopped", onPostgres, stopPostgres},
		{"network reset", onPostgres, breakNetwork},
		{"network stalled", onPostgres, stallNetwork},
		{"response to a commit lost", onPostgres, loseCommit},
	}
}

// between draws a time of the range.
func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}

func (r *run) drawNode(random *rand.Rand) *process { return r.nodes[random.IntN(len(r.nodes))] }

func killNode(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	n, down := r.drawNode(random), between(random, 0, 3*r.Lease/2)
	err := n.kill()
	r.lostLeases()
	if err == nil {
		err = pause(ctx, down)
	}
	if err == nil {
		err = n.start(ctx)
	}
	return fmt.Sprintf("%s, away for %s", n.name, down), err
}

func terminateNode(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	n, down := r.drawNode(random), between(random, 0, time.Second)
	err := n.terminate()
	if err == nil {
		err = pause(ctx, down)
	}
	if err == nil {
		err = n.start(ctx)
	}
	return fmt.Sprintf("%s, away for %s", n.name, down), err
}

// backlogSize is more messages than the nodes can have in progress at a receiver that hangs.
const backlogSize = 150

// gatherBacklog lets deliveries that have not begun gather in the memory of the nodes, behind receivers that hang until
// release is called: they are what a node must not send when it has lost its leases.
func (r *run) gatherBacklog(ctx context.Context, random *rand.Rand) (release func()) {
	all := func(b behaviour) {
		for _, e := range r.environments {
			for _, s := range e.subscriptions {
				if s.name == backlogged {
					s.receiver.behave(b)
				}
			}
		}
	}
	all(hang)
	r.provider.burst(ctx, random, r.environments, r.nodes, backlogSize)
	return func() { all(accept) }
}

// freezeNode stops a node for longer than its leases, mostly.
func freezeNode(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	n, frozen := r.drawNode(random), between(random, r.Lease/2, 2*r.Lease)
	if len(r.Disruptions) > 0 {
		frozen = 2 * r.Lease
	}
	release := r.gatherBacklog(ctx, random)
	err := n.freeze()
	release()
	r.lostLeases()
	if err == nil {
		err = pause(ctx, frozen)
	}
	r.noteThaw()
	return fmt.Sprintf("%s for %s", n.name, frozen), errors.Join(err, n.thaw())
}

func killFrozenNode(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	n, frozen := r.drawNode(random), between(random, 0, 2*r.Lease)
	err := n.freeze()
	r.lostLeases()
	if err == nil {
		err = pause(ctx, frozen)
	}
	if err == nil {
		err = n.kill()
	}
	if err == nil {
		err = n.start(ctx)
	}
	return fmt.Sprintf("%s after %s", n.name, frozen), err
}

// stepClock steps a node's wall clock there and back. Without a database that has a clock the steps are small, because
// due times follow them.
func stepClock(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	n, most := r.drawNode(random), int64(3600)
	if r.postgres == nil {
		most = 20
	}
	step, wait := random.Int64N(2*most+1)-most, between(random, time.Second, r.Lease)
	err := n.stepClock(step)
	r.lostLeases() // a lease may end by it
	if err == nil {
		err = pause(ctx, wait)
	}
	if err == nil {
		err = n.stepClock(0)
	}
	return fmt.Sprintf("%s by %d s for %s", n.name, step, wait), err
}

// pauseSubscription disables a subscription and enables it again.
func pauseSubscription(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	e := r.environments[random.IntN(len(r.environments))]
	names := plans()
	name, wait := names[random.IntN(len(names))].name, between(random, 100*time.Millisecond, 2*time.Second)
	var err error
	for _, s := range e.subscriptions {
		if s.name != name {
			continue
		}
		err = r.patch(ctx, e, s, false)
		if err == nil {
			err = pause(ctx, wait)
		}
		err = errors.Join(err, r.patch(ctx, e, s, true))
	}
	return fmt.Sprintf("%q of %s for %s", name, e.name, wait), err
}

// patch enables or disables a subscription.
func (r *run) patch(ctx context.Context, e *environment, s *subscription, enabled bool) error {
	return waitFor(ctx, "a change of a subscription", func() (bool, error) {
		err := e.api(r.http, r.nodes[0].cfg.Listen).call(ctx, http.MethodPatch, "/webhook-subscriptions/"+s.id,
			map[string]any{"enabled": enabled}, nil)
		return err == nil, nil
	})
}

// replayEvents replays some events by force, each once in a run: a second replay looks like the first.
func replayEvents(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	const most = 10
	var chosen []string
	events := r.provider.acknowledged()
	for range min(most, len(events)) {
		x := events[random.IntN(len(events))]
		if !r.replayed[x.event] {
			r.replayed[x.event] = true
			chosen = append(chosen, x.event)
			n := r.drawNode(random)
			// A refusal is as good as a success: a delivery may be in flight, or the node away.
			_ = x.environment.api(r.http, n.cfg.Listen).call(ctx, http.MethodPost, "/webhook-events/"+x.event+"/replay",
				map[string]any{"force": true}, nil)
		}
	}
	return fmt.Sprintf("%d events", len(chosen)), ctx.Err()
}

// fillDisk fills the disk of the database. PostgreSQL ends when it cannot write its log, and is started again.
func fillDisk(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	leave, full := 8<<10+random.Int64N(64<<10), between(random, time.Second, 2*r.Lease)
	err := r.disk.fill(leave)
	r.lostLeases()
	if err == nil {
		err = pause(ctx, full)
	}
	err = errors.Join(err, r.disk.free())
	if err == nil && r.postgres != nil {
		err = waitFor(ctx, "PostgreSQL runs again", func() (bool, error) {
			if !r.postgres.Running() {
				return false, r.postgres.Start()
			}
			return r.database.Ping(ctx) == nil, nil
		})
	}
	return fmt.Sprintf("%d bytes left, for %s", leave, full), err
}

func stopPostgres(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	crash, down := random.IntN(2) == 1, between(random, 0, 2*r.Lease)
	release := r.gatherBacklog(ctx, random)
	var err error
	if crash {
		r.postgres.Kill()
	} else {
		err = r.postgres.Stop()
	}
	release()
	r.lostLeases()
	if err == nil {
		err = pause(ctx, down)
	}
	return fmt.Sprintf("crashed: %v, for %s", crash, down), errors.Join(err, r.postgres.Start())
}

// drawPaths draws the paths that a disruption of the network meets: one, or all.
func (r *run) drawPaths(random *rand.Rand) (string, []*proxy) {
	i := random.IntN(len(r.paths) + 1)
	if i == len(r.paths) {
		return "all nodes", r.paths
	}
	return r.nodes[i].name, r.paths[i : i+1]
}

func breakNetwork(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	return r.network(ctx, random, broken, passing)
}

// stallNetwork ends with what was on its way, or with a reset.
func stallNetwork(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	if random.IntN(2) == 0 {
		return r.network(ctx, random, stalled, broken)
	}
	return r.network(ctx, random, stalled, passing)
}

func (r *run) network(ctx context.Context, random *rand.Rand, during, then network) (string, error) {
	name, paths := r.drawPaths(random)
	away := between(random, 100*time.Millisecond, 2*r.Lease)
	release := r.gatherBacklog(ctx, random)
	for _, p := range paths {
		p.set(during)
	}
	release()
	r.lostLeases()
	err := pause(ctx, away)
	for _, p := range paths {
		p.set(then)
		p.set(passing)
	}
	return fmt.Sprintf("%s, for %s", name, away), err
}

func loseCommit(ctx context.Context, r *run, random *rand.Rand) (string, error) {
	name, paths := r.drawPaths(random)
	away := between(random, 100*time.Millisecond, r.Lease)
	for _, p := range paths {
		p.breakAtCommit()
	}
	r.lostLeases()
	err := pause(ctx, away)
	for _, p := range paths {
		p.set(passing)
	}
	return fmt.Sprintf("%s, for %s", name, away), err
}
