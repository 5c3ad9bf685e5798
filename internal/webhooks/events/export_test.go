package events

import "time"

// BoundLists makes lists end after d.
func (s *Store) BoundLists(d time.Duration) { s.readTimeout = d }
