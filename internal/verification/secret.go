package verification

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// secretDecoding is how secret text becomes key bytes.
type secretDecoding string

const (
	secretUTF8   secretDecoding = "utf8"
	secretHex    secretDecoding = "hex"
	secretBase64 secretDecoding = "base64"
	secretWhsec  secretDecoding = "whsec"
)

// decodeSecret returns the key; wrong says what is wrong without quoting any of it.
func decodeSecret(how secretDecoding, text string) (key []byte, wrong string) {
	switch {
	case text == "":
		return nil, "is empty"
	case len(text) > maxSecretBytes:
		return nil, "is too long"
	}
	var err error
	switch how {
	case secretUTF8:
		return []byte(text), ""
	case secretHex:
		key, err = hex.DecodeString(text)
		wrong = "is not hexadecimal"
	case secretBase64:
		key, err = decodeBase64(text)
		wrong = "is not base64"
	case secretWhsec:
		key, err = decodeBase64(strings.TrimPrefix(text, "whsec_"))
		wrong = "is not whsec_ followed by base64"
	default:
		return nil, "cannot be decoded"
	}
	if err != nil {
		return nil, wrong + "; copy it from the provider again, without spaces or line ends"
	}
	if len(key) == 0 {
		return nil, "is empty once decoded"
	}
	return key, ""
}

// decodeBase64 accepts standard base64 with and without padding. encoding/base64 passes over line ends; a secret has none.
func decodeBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, base64.CorruptInputError(strings.IndexAny(text, "\r\n"))
	}
	if strings.HasSuffix(text, "=") {
		return base64.StdEncoding.DecodeString(text)
	}
	return base64.RawStdEncoding.DecodeString(text)
}
