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
	load := s.keys.Load
	s.keys.Load = func(_ context.Context, key string) (*Keys, error) {
		close(begun)
		<-release
		return load(ctx, key)
	}
	go func() {
		_, err := s.keys.Get(ctx, "", 0)
		ended <- err
	}()
	<-begun
	s.keys.Load = load
	return ended
}

// FailReads makes each later reading of the keys return err.
func (s *Service) FailReads(err error) {
	s.keys.Load = func(context.Context, string) (*Keys, error) { return nil, err }
}
