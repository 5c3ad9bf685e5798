package phases

import (
	"errors"
	"fmt"
	"time"

	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/report"
)

// meter takes the processor time of the server and of the bench between two moments.
type meter struct {
	server, self         procstat.Proc
	serverTime, selfTime time.Duration
	paused               bool
	err                  error
}

func (r *Runner) startMeter(subject Subject) (meter, error) {
	m := meter{server: subject.Process, self: r.self}
	m.serverTime, m.selfTime, m.err = m.read()
	return m, m.err
}

func (m *meter) read() (server, self time.Duration, err error) {
	server, serverErr := m.server.CPU()
	self, selfErr := m.self.CPU()
	return server, self, errors.Join(serverErr, selfErr)
}

// pause ends the metering; the figures keep until stop.
func (m *meter) pause() {
	if m.paused {
		return
	}
	server, self, err := m.read()
	m.serverTime, m.selfTime, m.err, m.paused = server-m.serverTime, self-m.selfTime, err, true
}

// stop ends the metering unless it is paused, and divides by the number of events.
func (m *meter) stop(events int, sampler *procstat.Sampler) (report.Use, error) {
	m.pause()
	peak, err := sampler.Peak()
	if err := errors.Join(m.err, err); err != nil {
		return report.Use{}, fmt.Errorf("measure the process: %w", err)
	}
	use := report.Use{PeakResidentBytes: peak}
	if thousands := float64(events) / 1000; thousands > 0 {
		use.CPUPerThousand = m.serverTime.Seconds() / thousands
		use.BenchCPUPerThousand = m.selfTime.Seconds() / thousands
	}
	return use, nil
}
