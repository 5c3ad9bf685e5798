package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

type subscriptionsStats struct {
	ID       string `arg:"" name:"subscription_id" help:"The subscription."`
	From     moment `placeholder:"TIME" help:"Start of the range, as a time (RFC 3339) or a duration ago, such as 90m or 48h. Default: an hour before its end by minute, a day by hour, 30 days by day."`
	To       moment `placeholder:"TIME" help:"End of the range, as a time or a duration ago. Default: now."`
	Bucket   string `enum:"minute,hour,day" default:"hour" placeholder:"LENGTH" help:"Length of a bucket: minute, hour or day."`
	apiFlags `embed:""`
}

// statRow holds the numbers of one bucket.
type statRow struct {
	Start    time.Time `json:"start"`
	Attempts struct {
		Succeeded  int64 `json:"succeeded"`
		Failed     int64 `json:"failed"`
		Superseded int64 `json:"superseded"`
	} `json:"attempts"`
	Deliveries struct {
		Succeeded int64 `json:"succeeded"`
		Dead      int64 `json:"dead"`
		Cancelled int64 `json:"cancelled"`
	} `json:"deliveries"`
	Duration      *percentiles `json:"attempt_duration_ms"`
	TimeToSuccess *percentiles `json:"time_to_success_ms"`
}

func (r *statRow) empty() bool {
	return r.Attempts.Succeeded+r.Attempts.Failed+r.Attempts.Superseded+r.Deliveries.Succeeded+r.Deliveries.Dead+
		r.Deliveries.Cancelled == 0
}

// percentiles are durations in milliseconds.
type percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// cells returns the three for a table, empty if nothing was measured.
func (p *percentiles) cells() []string {
	if p == nil {
		return []string{"-", "-", "-"}
	}
	ms := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	return []string{ms(p.P50), ms(p.P95), ms(p.P99)}
}

func (p *percentiles) text() string {
	c := p.cells()
	return fmt.Sprintf("p50 %s ms, p95 %s ms, p99 %s ms", c[0], c[1], c[2])
}

// Run shows the totals, and each bucket with activity.
func (c *subscriptionsStats) Run(ctx context.Context, e *env) error {
	q := url.Values{"bucket": {c.Bucket}}
	for name, m := range map[string]moment{"from": c.From, "to": c.To} {
		if m.given {
			q.Set(name, clock.Wire(m.time(e.clock.Now())))
		}
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: subscriptionsPath +
			apiclient.Path(c.ID, "stats"), Query: q})
		if err != nil {
			return err
		}
		if c.JSON {
			return printRaw(e.stdout, a.Body)
		}
		s, err := into[stats](a.Body)
		if err != nil {
			return err
		}
		return s.print(e)
	})
}

// stats are a subscription's statistics.
type stats struct {
	SubscriptionID string    `json:"subscription_id"`
	From           time.Time `json:"from"`
	To             time.Time `json:"to"`
	Bucket         string    `json:"bucket"`
	Open           struct {
		Pending   int64 `json:"pending"`
		RetryWait int64 `json:"retry_wait"`
		Held      int64 `json:"held"`
	} `json:"open"`
	Total   statRow   `json:"total"`
	Buckets []statRow `json:"buckets"`
}

func (s *stats) print(e *env) error {
	attempts, ended := s.Total.Attempts, s.Total.Deliveries
	fields := [][2]string{
		{"Subscription", s.SubscriptionID}, {"From", clock.Wire(s.From)}, {"To", clock.Wire(s.To)},
		{"Attempts", fmt.Sprintf("%d succeeded, %d failed, %d superseded", attempts.Succeeded, attempts.Failed,
			attempts.Superseded)},
		{"Deliveries", fmt.Sprintf("%d succeeded, %d dead, %d cancelled", ended.Succeeded, ended.Dead, ended.Cancelled)},
		{"Open now", fmt.Sprintf("%d pending, %d after a failed attempt, %d held", s.Open.Pending, s.Open.RetryWait,
			s.Open.Held)},
	}
	if s.Total.Duration != nil {
		fields = append(fields, [2]string{"Attempt time", s.Total.Duration.text()})
	}
	if s.Total.TimeToSuccess != nil {
		fields = append(fields, [2]string{"Time to success", s.Total.TimeToSuccess.text()})
	}
	if err := e.printFields(fields); err != nil {
		return err
	}
	t := e.table(terminal.Column{Title: "FROM (UTC)", Fixed: true}, terminal.Column{Title: "SUCCEEDED"},
		terminal.Column{Title: "FAILED"}, terminal.Column{Title: "DEAD"}, terminal.Column{Title: "CANCELLED"},
		terminal.Column{Title: "P50 MS"}, terminal.Column{Title: "P95 MS"}, terminal.Column{Title: "P99 MS"})
	n := 0
	for i := range s.Buckets {
		b := &s.Buckets[i]
		if b.empty() {
			continue
		}
		n++
		count := func(v int64) string { return strconv.FormatInt(v, 10) }
		t.Row(append([]string{b.Start.UTC().Format("2006-01-02 15:04"), count(b.Attempts.Succeeded), count(b.Attempts.Failed),
			count(b.Deliveries.Dead), count(b.Deliveries.Cancelled)}, b.Duration.cells()...)...)
	}
	return e.section("By "+s.Bucket+", only those with activity", n, t)
}
