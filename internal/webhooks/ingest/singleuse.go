package ingest

import (
	"context"
	"database/sql"

	"sallyport/internal/webhooks/events"
)

// claimSingleUses claims the values of the batch that a provider uses once, before any other key. A webhook with a
// value that was used before is a duplicate and claims nothing else: its id is under no signature, and claiming it
// would make a duplicate of the event to which the id belongs.
func (s *Service) claimSingleUses(ctx context.Context, tx *sql.Tx, batch []*item, nowMillis int64) error {
	holders := map[keyName]string{}
	var keys []*events.Key
	for _, it := range batch {
		if it.singleUse == nil {
			continue
		}
		name := keyName{it.event.KeyScope(), it.singleUse.hash}
		if _, claimed := holders[name]; claimed {
			continue
		}
		holders[name] = it.event.UUID
		keys = append(keys, it.singleUseKey())
	}
	if len(keys) == 0 {
		return nil
	}
	before, err := s.keys.Claim(ctx, tx, keys, nowMillis)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if before[i] != "" {
			holders[keyName{k.ConnectionUUID, string(k.Hash)}] = before[i]
		}
	}
	for _, it := range batch {
		if it.singleUse == nil {
			continue
		}
		if h := holders[keyName{it.event.KeyScope(), it.singleUse.hash}]; h != it.event.UUID {
			it.usedBy, it.claims = h, nil
		}
	}
	return nil
}

// handSingleUsesOver gives values that a duplicate by its id was the first to use to the event that it duplicates, so
// that what comes with such a value later names that event.
func (s *Service) handSingleUsesOver(ctx context.Context, tx *sql.Tx, batch []*item) error {
	originals := map[string]string{}
	for _, it := range batch {
		if it.singleUse == nil || it.usedBy != "" || it.duplicateOf == "" {
			continue
		}
		originals[it.event.UUID] = it.duplicateOf
		if err := s.keys.HandOver(ctx, tx, *it.singleUseKey(), it.duplicateOf); err != nil {
			return err
		}
	}
	for _, it := range batch {
		if original, known := originals[it.usedBy]; known {
			it.usedBy = original
			it.classify(nil) // it has no other key
		}
	}
	return nil
}

// singleUseKey returns the key that the item claims for its value.
func (it *item) singleUseKey() *events.Key {
	return &events.Key{ConnectionUUID: it.event.KeyScope(), Hash: []byte(it.singleUse.hash), EventUUID: it.event.UUID,
		ExpiresMillis: it.singleUse.expires}
}
