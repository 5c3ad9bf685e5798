package verification

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// Secret is one of a connection's webhook secrets: the text that a person pastes, or a public key for schemes that
// verify with one. Several are valid during a rotation.
type Secret struct {
	// ID names the secret in Result.KeyID. It is not secret.
	ID    string
	Value secretbox.Secret
}

// key is a decoded secret.
type key struct {
	id     string
	text   secretbox.Secret // as it is stored, for Diagnose
	bytes  []byte           // of a symmetric key or token
	public crypto.PublicKey // of an asymmetric one
}

// secretDecoding is how secret text becomes key bytes.
type secretDecoding string

const (
	secretNone   secretDecoding = "" // the scheme takes none
	secretUTF8   secretDecoding = "utf8"
	secretHex    secretDecoding = "hex"
	secretBase64 secretDecoding = "base64"
	secretWhsec  secretDecoding = "whsec"
	secretSHA256 secretDecoding = "sha256"
	// secretPublicKey is no way to decode that a declaration names: the secret is a public key, which is not secret at
	// all.
	secretPublicKey secretDecoding = "public key"
)

// decodeSecret returns the key; rule and wrong say what is wrong without quoting any of it.
func decodeSecret(how secretDecoding, text string) (key []byte, rule, wrong string) {
	switch {
	case text == "":
		return nil, ruleFormat, "is empty"
	case len(text) > maxSecretBytes:
		return nil, ruleFormat, "is too long"
	}
	var err error
	entropy := 0 // bytes that an attacker has to guess
	switch how {
	case secretUTF8:
		key, entropy = []byte(text), len(text)
	case secretSHA256:
		sum := sha256.Sum256([]byte(text))
		key, entropy = sum[:], len(text)
	case secretHex:
		key, err = hex.DecodeString(text)
		wrong, entropy = "is not hexadecimal", len(key)
	case secretBase64:
		key, err = decodeBase64(text)
		wrong, entropy = "is not base64", len(key)
	case secretWhsec:
		key, err = decodeBase64(strings.TrimPrefix(text, "whsec_"))
		wrong, entropy = "is not whsec_ followed by base64", len(key)
	case secretNone, secretPublicKey:
		return nil, ruleFormat, "cannot be decoded"
	}
	if err != nil {
		return nil, ruleFormat, wrong + "; copy it from the provider again, without spaces or line ends"
	}
	if entropy < minSecretBytes {
		return nil, ruleLimit, "is shorter than 8 bytes once decoded, so it could be guessed; set a longer one at the " +
			"provider"
	}
	return key, "", ""
}

// decodeBase64 accepts standard base64 with and without padding. encoding/base64 passes over line ends; a secret has
// none.
func decodeBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, base64.CorruptInputError(strings.IndexAny(text, "\r\n"))
	}
	if strings.HasSuffix(text, "=") {
		return base64.StdEncoding.DecodeString(text)
	}
	return base64.RawStdEncoding.DecodeString(text)
}

// usesSecrets reports whether the connection's secrets are keys of this proof.
func (p *proof) usesSecrets() bool { return p.secret != secretNone }

// bindKeys gives the secrets to the proofs. If several proofs use secrets, each keeps those that it can read. A secret
// that no proof can read is a problem.
func bindKeys(proofs []*proof, secrets []Secret) problems {
	var fs problems
	if len(secrets) > maxSecrets {
		fs.add("secret", ruleLimit, "has more than %d active values; delete those that are no longer used", maxSecrets)
		return fs
	}
	for _, s := range secrets {
		var refused problems
		taken := false
		for _, p := range proofs {
			if !p.usesSecrets() {
				continue
			}
			if rule, wrong := p.takeKey(s); wrong != "" {
				refused.add("secret", rule, "%s %s", s.ID, wrong)
			} else {
				taken = true
			}
		}
		switch {
		case taken:
		case len(refused) > 0:
			fs = append(fs, refused[0])
		default:
			fs.add("secret", ruleCoherent,
				"%s has no use: this provider's webhooks are proved without a secret of the connection", s.ID)
		}
	}
	return fs
}

func (p *proof) takeKey(s Secret) (rule, wrong string) {
	if p.secret == secretPublicKey {
		public, wrong := parsePublicKey(p.families, s.Value.Reveal())
		if wrong == "" {
			p.keys = append(p.keys, key{id: s.ID, public: public})
		}
		return ruleFormat, wrong
	}
	decoded, rule, wrong := decodeSecret(p.secret, s.Value.Reveal())
	if wrong != "" {
		return rule, wrong
	}
	p.keys = append(p.keys, key{id: s.ID, text: s.Value, bytes: decoded})
	return "", ""
}
