package accesstokens

import "context"

// What tests of the package's promises go by.
const (
	SigningKeyCache = signingKeyCache
	SigningKeyLead  = signingKeyLead
	SigningKeyTail  = signingKeyTail
)

// HangRead begins a reading of the keys that ends when release is closed, and returns what tells that it has ended.
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
