package audit

import "time"

// BoundSearch makes every search of a list end after one window of so many numbers.
func (s *Store) BoundSearch(window int64) { s.window, s.searchTime = window, -time.Second }
