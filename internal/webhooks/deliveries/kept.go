package deliveries

import (
	"container/list"
	"sync"
	"time"
)

const (
	// maxKept limits the contents that are kept for claims, in bytes.
	maxKept = 4 << 20
	// keptEvent is about what an event takes without its payload.
	keptEvent = 2 << 10
)

// kept holds the contents of new events of which deliveries wait in the table, so that a claim need not read what this
// process has just stored. Claims begin with the deliveries that wait longest, so the contents that came first stay:
// what finds no room is read again. Nothing stays longer than it can be sent.
type kept struct {
	mu      sync.Mutex
	byEvent map[string]*list.Element
	// oldest holds the contents in the order in which they came.
	oldest list.List
	size   int
}

// keptContent is a content that so many deliveries wait for.
type keptContent struct {
	content
	waiting, size int
}

func newKept() *kept { return &kept{byEvent: map[string]*list.Element{}} }

// put keeps a content, whose event and payload are set, for that many deliveries, if there is room.
func (k *kept) put(c content, waiting int, now time.Time) {
	size := c.payload.Size() + keptEvent
	if len(c.payload.Body) > maxHandedBody {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.size+size > maxKept {
		k.dropOld(now)
	}
	if k.size+size > maxKept {
		return
	}
	k.size += size
	k.byEvent[c.event.UUID] = k.oldest.PushBack(&keptContent{c, waiting, size})
}

// take returns the content of an event for one of its deliveries.
func (k *kept) take(eventUUID string) (c content, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	element := k.byEvent[eventUUID]
	if element == nil {
		return content{}, false
	}
	found := element.Value.(*keptContent) //nolint:errcheck,forcetypeassert // the list holds nothing else
	if found.waiting--; found.waiting == 0 {
		k.remove(element, found)
	}
	return found.content, true
}

// drop removes what came too long ago to be sent without reading it again.
func (k *kept) drop(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropOld(now)
}

func (k *kept) dropOld(now time.Time) {
	for element := k.oldest.Front(); element != nil; element = k.oldest.Front() {
		found := element.Value.(*keptContent) //nolint:errcheck,forcetypeassert // the list holds nothing else
		if age := now.Sub(found.since); age >= 0 && age <= maxFresh {
			return
		}
		k.remove(element, found)
	}
}

func (k *kept) remove(element *list.Element, c *keptContent) {
	k.oldest.Remove(element)
	delete(k.byEvent, c.event.UUID)
	k.size -= c.size
}
