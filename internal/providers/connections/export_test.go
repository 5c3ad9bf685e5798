package connections

import "sallyport/internal/platform/db"

// ReadFrom makes Lookup read from q.
func (s *Service) ReadFrom(q db.Querier) { s.loader.read, s.loader.paths = q, q }
