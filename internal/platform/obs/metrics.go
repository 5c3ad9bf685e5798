package obs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the service's own metrics. Labels are bounded: outcomes and routes, never ids, paths or addresses.
type Metrics struct {
	Registry *prometheus.Registry
	// Events counts inbound requests by outcome: received, duplicate, refused, too_large, overloaded, unavailable,
	// unknown_connection.
	Events *prometheus.CounterVec
	// Deliveries counts tries by outcome: succeeded, failed, dead.
	Deliveries *prometheus.CounterVec
	// Filters counts what subscriptions' filters said of events that came in, by outcome: matched, not_matched, or the
	// code of the failure.
	Filters *prometheus.CounterVec
	// FirstAttempt is the time from an event's receipt to the start of a delivery's first try, in seconds.
	FirstAttempt prometheus.Histogram
	// Commit is the duration of a group commit by batch (ingest, outcomes), in seconds.
	Commit *prometheus.HistogramVec
	// BatchSize is the number of rows joined in a group commit, by batch.
	BatchSize *prometheus.HistogramVec
	// Requests is the duration of API requests by route and status class, in seconds.
	Requests *prometheus.HistogramVec
	// InFlight is the number of tries under way.
	InFlight prometheus.Gauge
	// QueueDepth and QueueOldest describe the deliveries whose time has come.
	QueueDepth  prometheus.Gauge
	QueueOldest prometheus.Gauge
	// Replays is the number of unfinished bulk replays by state: queued, running, paused.
	Replays *prometheus.GaugeVec
	// Replayed counts the deliveries of bulk replays by outcome: started, skipped, and once their first try has ended
	// succeeded, failed or other.
	Replayed *prometheus.CounterVec
	// ProviderFaults is the number of definition files that are not in force as they stand.
	ProviderFaults prometheus.Gauge
	// Removed counts what retention removed, by what: payload, partition, event, delivery, attempt, key; and as ended the
	// deliveries that it ended because their payload's time was over.
	Removed *prometheus.CounterVec
	// Overdue is for how long the oldest payload or event has been due for removal, in seconds, on the node that removes.
	Overdue *prometheus.GaugeVec
	// RateLimited counts requests refused for their rate, by whose it was: api_key, user, address, connection.
	RateLimited *prometheus.CounterVec
	// RateLeaseFailures counts the times that a node could not lease slices of rate limits.
	RateLeaseFailures prometheus.Counter
	// StreamReaders is the number of open streams.
	StreamReaders prometheus.Gauge
	// StreamMessages counts messages sent to readers of streams by kind; one to ten readers is ten.
	StreamMessages *prometheus.CounterVec
	// StreamsClosed counts streams that have ended by reason; lagged are those whose reader was left behind.
	StreamsClosed *prometheus.CounterVec
	// StreamDelay is the time from a change of an event until its message waits for the readers, in seconds.
	StreamDelay prometheus.Histogram
	// MailsQueued is the number of mails that wait to be sent.
	MailsQueued prometheus.Gauge
	// Mails counts tries to send mails by kind and outcome: sent, failed (tried again), refused (for good), expired (given
	// up).
	Mails *prometheus.CounterVec
}

// NewMetrics returns the metrics in a registry of their own, with those of the process and the Go runtime.
func NewMetrics() *Metrics {
	fast := prometheus.ExponentialBuckets(0.00025, 2, 18)
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		Events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_webhook_events_total",
			Help: "Inbound webhook requests by outcome."}, []string{"outcome"}),
		Deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_delivery_attempts_total",
			Help: "Delivery attempts by outcome."}, []string{"outcome"}),
		Filters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_filter_evaluations_total",
			Help: "Evaluations of subscriptions' filters by outcome."}, []string{"outcome"}),
		FirstAttempt: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sallyport_receipt_to_first_attempt_seconds",
			Help: "Time from an event's receipt to the start of a delivery's first attempt.", Buckets: fast}),
		Commit: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sallyport_store_commit_seconds",
			Help: "Duration of a group commit, by batch.", Buckets: fast}, []string{"batch"}),
		BatchSize: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sallyport_store_batch_rows",
			Help: "Rows joined in a group commit, by batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 9)},
			[]string{"batch"}),
		Requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sallyport_http_request_seconds",
			Help: "Duration of requests by route and status class.", Buckets: fast}, []string{"route", "status"}),
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_deliveries_in_flight",
			Help: "Delivery attempts under way."}),
		QueueDepth: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_queue_depth",
			Help: "Deliveries whose time has come and that no worker holds (counted up to 100,000)."}),
		QueueOldest: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_queue_oldest_seconds",
			Help: "Age of the oldest delivery whose time has come."}),
		Replays: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sallyport_webhook_replays",
			Help: "Unfinished bulk replays by state."}, []string{"status"}),
		Replayed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_webhook_replay_deliveries_total",
			Help: "Deliveries of bulk replays by outcome: started, skipped, and after their first attempt succeeded, failed " +
				"or other."}, []string{"outcome"}),
		ProviderFaults: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_provider_definitions_refused",
			Help: "Files of the folder of provider definitions that are faulty, or gone while connections use them; the " +
				"versions before stay in force."}),
		Removed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_retention_removed_total",
			Help: "What retention removed, by kind; ended: deliveries that it ended with their payload."}, []string{"what"}),
		Overdue: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sallyport_retention_overdue_seconds",
			Help: "For how long the oldest payload or event has been due for removal, on the node that removes; 0 on others."},
			[]string{"what"}),
		RateLimited: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_rate_limited_total",
			Help: "Requests refused for their rate, by whose it was."}, []string{"by"}),
		RateLeaseFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_rate_limit_lease_failures_total",
			Help: "Times that this node could not share rate limits with the others, and went by its part of them."}),
		StreamReaders: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_stream_readers",
			Help: "Open streams of events."}),
		StreamMessages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_stream_messages_total",
			Help: "Messages sent to readers of streams, by kind."}, []string{"kind"}),
		StreamsClosed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_streams_closed_total",
			Help: "Streams that have ended, by reason."}, []string{"reason"}),
		StreamDelay: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sallyport_stream_delay_seconds",
			Help: "Time from a change of an event until its message waits for the readers of streams.", Buckets: fast}),
	}
	m.MailsQueued = prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_mails_queued",
		Help: "Mails that wait to be sent."})
	m.Mails = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_mail_attempts_total",
		Help: "Attempts to send mails by kind and outcome; expired: given up because what the mail tells of is over."},
		[]string{"kind", "outcome"})
	m.Registry.MustRegister(m.MailsQueued, m.Mails)
	m.Registry.MustRegister(m.Events, m.Deliveries, m.Filters, m.FirstAttempt, m.Commit, m.BatchSize, m.Requests,
		m.InFlight, m.QueueDepth, m.QueueOldest, m.ProviderFaults, m.RateLimited, m.RateLeaseFailures, m.Replays, m.Replayed,
		m.Removed, m.Overdue, m.StreamReaders, m.StreamMessages, m.StreamsClosed, m.StreamDelay,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}
