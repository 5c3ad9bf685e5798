package deliveries

import (
	"container/list"
	"context"
	"sync"

	"sallyport/internal/webhooks/subscriptions"
)

const (
	// maxBodyMemory limits the memory of the large bodies that are sent, in bytes. The largest body fits into the share of
	// an environment that is alone.
	maxBodyMemory = 48 << 20
	// smallShare is the part of maxBodyMemory that an environment may use while another waits for its first large body.
	smallShare = maxBodyMemory / 16
	// maxBuiltMemory limits what large bodies need in addition while they are read and built, which no receiver delays.
	maxBuiltMemory = 25 << 20
	// maxLooks limits how many queues that wait for memory are looked at when some is free again.
	maxLooks = 64
)

// bodyMemory divides the memory for the large bodies that are sent. Its dispatcher's lock guards it.
type bodyMemory struct {
	d *dispatcher
	// large holds the bodies, by event. used is their size, in bytes.
	large map[string]*largeBody
	used  int
	// heavy holds the environments with queues that wait for memory. starving counts those of them that have little of it.
	heavy    list.List
	starving int
}

// largeBody is the body of an event, larger than maxHandedBody, while it is sent. The event's deliveries share it.
type largeBody struct {
	env *environment
	// size is what counts of the memory for large bodies, users the number of jobs that have the body. Both are the
	// dispatcher's.
	size, users int

	mu    sync.Mutex
	forms map[subscriptions.PayloadMode]form
}

// form returns what the attempt of a job sends to a subscription that gets the event under the type.
func (s *Service) form(ctx context.Context, j *job, mode subscriptions.PayloadMode, eventType string) (form, error) {
	if b := j.large; b != nil {
		f, err := s.largeForm(ctx, j, b, mode)
		return f.under(mode, eventType, j.event), err
	}
	if err := s.loadPayload(ctx, j); err != nil {
		return form{}, err
	}
	return buildForm(mode, eventType, j.event, j.payload)
}

// largeForm returns what all attempts of the mode send of a large body, which the first of its jobs reads and builds.
func (s *Service) largeForm(ctx context.Context, j *job, b *largeBody, mode subscriptions.PayloadMode) (form, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.forms[mode]; ok {
		return known, nil
	}
	weight := min(int64(j.size), maxBuiltMemory)
	if err := s.building.Acquire(ctx, weight); err != nil {
		return form{}, err
	}
	defer s.building.Release(weight)
	defer func() { j.payload = nil }()
	if err := s.loadPayload(ctx, j); err != nil {
		return form{}, err
	}
	built, err := buildShared(mode, j.event, j.payload)
	if err != nil {
		return form{}, err
	}
	b.forms[mode] = built
	size := 0
	for _, f := range b.forms {
		size += len(f.body)
	}
	s.dispatcher.memory.resize(b, size)
	return built, nil
}

// bodyFits reports whether the first job of the queue's list may have its body in memory. An environment has a share,
// and of that each subscription one; see headroom. A body that is in memory already costs nothing more. An environment
// that has more than smallShare begins nothing while one that has less waits: what is freed must add up to its body.
func (m *bodyMemory) bodyFits(q *queue, replay bool) bool {
	waiting := *q.list(replay)
	return len(waiting) == 0 || m.fits(waiting[0])
}

func (m *bodyMemory) fits(j *job) bool {
	q, e := j.queue, j.queue.env
	switch {
	case j.size == 0 || m.used == 0:
		return true
	case m.starving > 0 && e.large > smallShare:
		return false
	case m.large[j.delivery.EventUUID] != nil:
		return true
	}
	left := headroom(maxBodyMemory, m.used, e.large, shareOfFree)
	return j.size <= left && q.large < left
}

// hold gives a job its body, or the memory for it.
func (m *bodyMemory) hold(j *job) {
	if j.size == 0 {
		return
	}
	b := m.large[j.delivery.EventUUID]
	if b == nil {
		b = &largeBody{env: j.queue.env, forms: map[subscriptions.PayloadMode]form{}}
		m.large[j.delivery.EventUUID] = b
		m.grow(b, j.size)
	}
	b.users++
	j.large = b
	j.queue.large += j.size
}

// letGo takes the body of a job back, and gives queues that wait for memory a turn.
func (m *bodyMemory) letGo(j *job) {
	b := j.large
	if b == nil {
		return
	}
	j.large = nil
	j.queue.large -= j.size
	if b.users--; b.users == 0 {
		m.grow(b, -b.size)
		delete(m.large, j.delivery.EventUUID)
	}
	m.unparkHeavy()
}

// grow counts n more bytes of a body.
func (m *bodyMemory) grow(b *largeBody, n int) {
	b.size += n
	b.env.large += n
	m.used += n
	if b.env.large > smallShare {
		m.starve(b.env, false)
	}
}

// resize records the size of a body that has been built.
func (m *bodyMemory) resize(b *largeBody, size int) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	m.grow(b, size-b.size)
}

// starve records whether an environment that has little memory for large bodies waits for more.
func (m *bodyMemory) starve(e *environment, starves bool) {
	switch {
	case starves && !e.starves:
		m.starving++
	case !starves && e.starves:
		m.starving--
	}
	e.starves = starves
}

// parkHeavy lets q wait for memory for its next body.
func (m *bodyMemory) parkHeavy(q *queue, replay bool) {
	m.d.withdraw(q)
	e := q.env
	q.wait(&e.heavy[kind(replay)], replay)
	if e.heavyElement == nil {
		e.heavyElement = m.heavy.PushBack(e)
	}
	if e.large <= smallShare {
		m.starve(e, true)
	}
}

// forgetHeavy records that an environment may have no queue any more that waits for memory.
func (m *bodyMemory) forgetHeavy(e *environment) {
	if e.heavyElement != nil && e.heavy[0].Len()+e.heavy[1].Len() == 0 {
		m.heavy.Remove(e.heavyElement)
		e.heavyElement = nil
		m.starve(e, false)
	}
}

// unparkHeavy gives queues that wait for memory a turn, if their next body fits now.
func (m *bodyMemory) unparkHeavy() {
	for range maxLooks {
		if m.heavy.Len() == 0 {
			return
		}
		e, ok := m.heavy.Front().Value.(*environment)
		if !ok {
			return
		}
		m.heavy.MoveToBack(e.heavyElement)
		for _, replay := range [...]bool{false, true} {
			waiting := &e.heavy[kind(replay)]
			if waiting.Len() == 0 {
				continue
			}
			q, ok := waiting.Front().Value.(*queue)
			if !ok {
				return
			}
			if !m.bodyFits(q, replay) {
				waiting.MoveToBack(q.element)
				continue
			}
			m.d.withdraw(q)
			m.d.offer(q)
		}
	}
}

// hasMemory reports whether a job whose event was not known when it was started may have its body in memory. If it
// returns false, the job waits for another turn.
func (m *bodyMemory) hasMemory(j *job, size int64) bool {
	if size <= maxHandedBody {
		return true
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if j.large != nil {
		return true
	}
	j.size = int(size)
	if !m.fits(j) {
		j.again = true
		return false
	}
	m.hold(j)
	return true
}
