package db

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics returns the metrics of the database: of SQLite's write-ahead log, and of the turns of List.
func (d *DB) Metrics() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sallyport_database_log_bytes",
			Help: "Size of the content of SQLite's write-ahead log at the last checkpoint; 0 on PostgreSQL."},
			func() float64 { return float64(d.log.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sallyport_database_lists_waiting",
			Help: "Reads of lists that wait for their turn."},
			func() float64 { return float64(d.gate.Counts().Waiting) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sallyport_database_list_wait_seconds_total",
			Help: "Time that reads of lists have waited for their turn."},
			func() float64 { return d.gate.Counts().Waited.Seconds() }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sallyport_database_lists_refused_total",
			Help: "Reads of lists refused with 503 because no turn came in time."},
			func() float64 { return float64(d.gate.Counts().Refused) }),
	}
}
