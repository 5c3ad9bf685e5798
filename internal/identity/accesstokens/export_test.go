package accesstokens

import "context"

// Values on which tests of the package's promises depend.
const (
	SigningKeyCache = signingKeyCache
	SigningKeyLead  = signingKeyLead
	SigningKeyTail  = signingKeyTail
)

// HangRead begins a reading of the keys that ends when release is closed. The returned function reports that it has
// ended.
func (s *Service) HangRead(ctx context.Context, release <-chan struct{}) <-chan error {
	begun, ended := make(chan struct{}), make(chan error, 1)
	result := s.cache.loads.DoChan("", func() (any, error) {
		close(begun)
		<-release
		return s.readKeys(ctx)
	})
	<-begun
	go func() { ended <- (<-result).Err }()
	return ended
}
