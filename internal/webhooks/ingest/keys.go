package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/events"
)

// claimedKey is a key that the event claims. If another event holds a key that decides, this event is a duplicate; with
// another kind of key it is only suspect.
type claimedKey struct {
	hash    string
	decides bool
	expires int64
}

// nameKeys sets the keys by which the webhook is compared with earlier ones, those that decide first. standard is the
// service's window for bodies.
func (it *item) nameKeys(in *connections.Inbound, told *verification.Event, body []byte, now time.Time,
	standard time.Duration) {
	window, suspectWindow := in.Connection.Webhook.BodyWindows(in.Verifier, standard)
	if told.ID != "" {
		it.event.IdempotencyKey, it.event.IdempotencySource = told.ID, told.IDSource
		hash := events.HashID(told.ID)
		if told.IDSigned {
			hash = events.HashSignedID(told.ID)
		}
		it.addKey(hash, true, events.KeyForever)
		if !told.IDSigned && suspectWindow > 0 {
			it.addKey(events.HashBody(sumOf("", body)), false, clock.Millis(now.Add(suspectWindow)))
		}
		return
	}
	// If the type is not signed, only the body identifies an earlier event: a header that anyone can change must not
	// create a new event.
	kind := ""
	if told.TypeSigned {
		kind = told.Type
	}
	it.bodyKey, it.event.IdempotencySource = sumOf(kind, body), events.SourceBodyHash
	if window > 0 {
		it.addKey(events.HashBody(it.bodyKey), true, clock.Millis(now.Add(window)))
	}
	// The id may have been left out to replay the webhook. With an id it claims its body alone.
	if suspectWindow > 0 && in.Verifier.CanLeaveIDOut() && (window == 0 || kind != "") {
		it.addKey(events.HashBody(sumOf("", body)), false, clock.Millis(now.Add(suspectWindow)))
	}
}

func (it *item) addKey(hash []byte, decides bool, expires int64) {
	it.keys = append(it.keys, claimedKey{hash: string(hash), decides: decides, expires: expires})
}

// sumOf returns the hash of a body in hexadecimal, together with the type of the event unless that is empty.
func sumOf(kind string, body []byte) string {
	h := sha256.New()
	if kind != "" {
		h.Write([]byte(kind))
		h.Write([]byte{0})
	}
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
