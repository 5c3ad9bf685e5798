package compare

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// ackLimit is how much longer the slowest hundredth of acknowledgements may take next to an attack.
	ackLimit = 2
	// healthyLimit is the same of the way to a receiver that is well, next to receivers that hang.
	healthyLimit = 1.4
)

func ackTarget() []Target { return []Target{{Figure: AckP99, Limit: ackLimit}} }

// attacks returns the rows about an environment next to another one that does harm.
func attacks() []Row {
	return []Row{
		{Name: "hanging-4", About: "another environment has four receivers that hang, and 3,000 events for each",
			Targets: ackTarget(), measure: next(fourHang)},
		{Name: "hanging-26", About: "another environment has 26 receivers that hang, and 400 events for each",
			Targets: []Target{{Figure: SinkP99, Limit: healthyLimit}, {Figure: AckP99, Limit: ackLimit}},
			measure: next(manyHang)},
		{Name: "dead", About: "another environment retries 10,000 deliveries to receivers that refuse connections, each " +
			"twice a second",
			Targets: ackTarget(), measure: next(deadReceivers)},
		{Name: "fast-fan", About: "another environment has 6 events for 10,000 subscriptions each, and a receiver that is " +
			"fast",
			Targets: ackTarget(), measure: next(fastFan)},
		{Name: "fan-out", About: "another environment sends an event to 10,000 subscriptions every three seconds",
			Targets: ackTarget(), measure: next(fanOuts)},
		{Name: "changes", About: "a key changes one of 5,001 subscriptions of another environment 100 times a second",
			Targets: ackTarget(), measure: next(changes)},
		{Name: "filters", About: "another environment has 200 filters near the limit of their cost, and 20 events a second",
			Targets: ackTarget(), measure: next(costlyFilters)},
		{Name: "lists", About: "40 clients read lists that match none of the events of another environment",
			Targets: ackTarget(), measure: next(emptyLists)},
		{Name: "include", About: "four clients read lists of another environment with 400 deliveries of each event",
			Targets: append(ackTarget(), peakTarget()), measure: next(longLists)},
		{Name: "guesses", About: "a client guesses the signature of another environment's connection 1,800 times a second",
			Targets: ackTarget(), measure: next(guesses)},
	}
}

func fourHang(ctx context.Context, s *scene) (attack, error) {
	const receivers, events = 4, 3_000
	return s.once(events), s.hang(ctx, receivers)
}

func manyHang(ctx context.Context, s *scene) (attack, error) {
	const receivers, events = 26, 400
	return s.once(events), s.hang(ctx, receivers)
}

// hang gives the other environment receivers that hang.
func (s *scene) hang(ctx context.Context, receivers int) error {
	for range receivers {
		url, err := s.bench.peers.hanging(ctx)
		if err != nil {
			return err
		}
		if _, err := s.others.Subscribe(ctx, url, nil); err != nil {
			return err
		}
	}
	return nil
}

func deadReceivers(ctx context.Context, s *scene) (attack, error) {
	const receivers, events, retries = 25, 400, 50
	schedule := make([]float64, retries)
	for i := range schedule {
		schedule[i] = 0.5
	}
	for range receivers {
		url, err := refusing(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := s.others.Subscribe(ctx, url, map[string]any{"retry_schedule_seconds": schedule}); err != nil {
			return nil, err
		}
	}
	return s.once(events), nil
}

// fan is how many subscriptions match an event that fans out.
const fan = 10_000

func (s *scene) fan(ctx context.Context) error {
	url, err := s.bench.peers.accepting(ctx)
	if err == nil {
		err = s.subscribe(ctx, fan, url, nil)
	}
	return err
}

func fastFan(ctx context.Context, s *scene) (attack, error) {
	const events = 6
	return s.once(events), s.fan(ctx)
}

func fanOuts(ctx context.Context, s *scene) (attack, error) {
	const interval = 3 * time.Second
	return s.flood(1, interval, func(ctx context.Context) (int, error) {
		if err := s.send(ctx, 1); err != nil {
			return 0, err
		}
		return http.StatusOK, nil
	}), s.fan(ctx)
}

func changes(ctx context.Context, s *scene) (attack, error) {
	const subscriptions, interval = 5_000, 10 * time.Millisecond
	url, err := s.bench.peers.accepting(ctx)
	if err != nil {
		return nil, err
	}
	none := func(int) map[string]any { return map[string]any{"event_types": []string{"nothing"}} }
	if err := s.subscribe(ctx, subscriptions, url, none); err != nil {
		return nil, err
	}
	id, err := s.others.Subscribe(ctx, url, none(0))
	var n atomic.Int64
	// Several clients, because one waits for each commit.
	const clients = 4
	return s.flood(clients, clients*interval, func(ctx context.Context) (int, error) {
		status, _, err := s.others.Do(ctx, http.MethodPatch, "/webhook-subscriptions/"+id,
			map[string]any{"event_types": []string{fmt.Sprintf("nothing.%d", n.Add(1))}})
		return status, err
	}), err
}

func costlyFilters(ctx context.Context, s *scene) (attack, error) {
	const filters, elements, interval = 200, 100, 50 * time.Millisecond
	url, err := s.bench.peers.accepting(ctx)
	if err != nil {
		return nil, err
	}
	err = s.subscribe(ctx, filters, url, func(i int) map[string]any {
		return map[string]any{"filter": fmt.Sprintf("event.body.list.exists(x, event.body.list.exists(y, x + y == %d))",
			-1-i)}
	})
	list := strings.Repeat("1,", elements)
	var n atomic.Int64
	return s.flood(1, interval, func(ctx context.Context) (int, error) {
		body := []byte(fmt.Sprintf(`{"n":%d,"list":[%s1]}`, n.Add(1), list))
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		return s.post(ctx, http.DefaultClient, s.theirs, body, http.Header{"X-Github-Event": {"push"},
			"X-Github-Delivery":   {rand.Text()},
			"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}})
	}), err
}

// post makes a request to a connection.
func (s *scene) post(ctx context.Context, client *http.Client, path string, body []byte, h http.Header) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.servers[0].Addr+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = h
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func emptyLists(ctx context.Context, s *scene) (attack, error) {
	const clients = 40
	err := s.send(ctx, 1)
	if err == nil {
		err = s.change(ctx, func(ctx context.Context) error { return s.fill(ctx, s.theirs, s.bench.Fill) })
	}
	return s.flood(clients, 0, s.list("provider=nothing")), err
}

func longLists(ctx context.Context, s *scene) (attack, error) {
	const clients, events, deliveries, wait = 4, 260, 400, 40 * time.Second
	url, err := s.bench.peers.accepting(ctx)
	if err == nil {
		err = s.subscribe(ctx, deliveries, url, nil)
	}
	if err == nil {
		err = s.send(ctx, events)
	}
	if err == nil {
		err = s.wait(ctx, wait) // in which they are delivered
	}
	return s.flood(clients, 0, s.list("include=deliveries&limit=250")), err
}

func guesses(ctx context.Context, s *scene) (attack, error) {
	const clients, interval = 16, 9 * time.Millisecond
	// From an address that no one else has.
	transport := &http.Transport{MaxIdleConnsPerHost: clients, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{
		IP: net.IPv4(127, 0, 3, 1)}}).DialContext}
	var n atomic.Int64
	guess := s.flood(clients, interval, func(ctx context.Context) (int, error) {
		return s.post(ctx, &http.Client{Transport: transport}, s.theirs, []byte("{}"), http.Header{
			"X-Github-Event": {"push"}, "X-Hub-Signature-256": {fmt.Sprintf("sha256=%064x", n.Add(1))}})
	})
	return func(ctx context.Context) (string, error) {
		defer transport.CloseIdleConnections()
		return guess(ctx)
	}, nil
}
