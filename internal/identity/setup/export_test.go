package setup

// MaxSetupTokens is how many tokens are open at a time.
const MaxSetupTokens = maxSetupTokens

// ErrSetupToken is the reason why a set-up token is refused.
var ErrSetupToken = errSetupToken

// DevCredentials is the form of development mode's file.
type DevCredentials = devCredentials

// TokenMAC returns what is stored of a set-up token.
func (s *Service) TokenMAC(t Token) []byte { return tokenMAC(s.installation.Pepper, t) }

// MAC returns the HMAC of a set-up token for another purpose.
func (s *Service) MAC(purpose string, t Token) []byte {
	return s.installation.Pepper.MAC(purpose, []byte(t.Reveal()))
}
