package load

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"time"

	"sallyport/bench/internal/event"
)

// Scheme is how a provider signs its deliveries.
type Scheme string

// The schemes the generator can sign with; their values are the provider names of the gateway.
const (
	// GitHub signs the body alone: X-Hub-Signature-256 (docs.github.com, "Validating webhook deliveries").
	GitHub Scheme = "github"
	// StandardWebhooks signs id, timestamp and body (github.com/standard-webhooks/standard-webhooks, version 1).
	StandardWebhooks Scheme = "standard-webhooks"
)

const (
	uuidLen      = 36
	unixTimeLen  = 10
	secretPrefix = "whsec_"
)

// message is one connection's request, rewritten in place for every event: nothing is allocated per request, while
// identifier, sequence number and signature are new each time.
type message struct {
	bytes      []byte
	id         []byte
	timestamp  []byte
	signature  []byte
	body       []byte
	mac        hash.Hash
	signPrefix bool
	encode     func(dst, src []byte)
	sum        [sha256.Size]byte
}

func newMessage(scheme Scheme, addr, path, secret string, epoch uint32) (*message, error) {
	head := "POST " + path + " HTTP/1.1\r\nHost: " + addr +
		"\r\nUser-Agent: sallyport-bench\r\nContent-Type: application/json\r\n"
	var idField, timeField, signatureField string
	var key []byte
	var signatureLen int
	m := &message{}
	switch scheme {
	case GitHub:
		head += "X-GitHub-Event: push\r\n"
		idField, signatureField = "X-GitHub-Delivery: ", "X-Hub-Signature-256: sha256="
		key = []byte(secret)
		signatureLen = hex.EncodedLen(sha256.Size)
		m.encode = func(dst, src []byte) { hex.Encode(dst, src) }
	case StandardWebhooks:
		idField, timeField, signatureField = "webhook-id: ", "webhook-timestamp: ", "webhook-signature: v1,"
		var err error
		if key, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix)); err != nil {
			return nil, fmt.Errorf("decode the webhook secret: %w", err)
		}
		signatureLen = base64.StdEncoding.EncodedLen(sha256.Size)
		m.encode = base64.StdEncoding.Encode
		m.signPrefix = true
	default:
		return nil, fmt.Errorf("unknown signature scheme %q", scheme)
	}
	m.mac = hmac.New(sha256.New, key)

	// The buffer is built once in its final length, then the varying parts are taken as slices of it.
	at := func(n int) (start int) {
		start = len(m.bytes)
		m.bytes = append(m.bytes, make([]byte, n)...)
		return start
	}
	m.bytes = append(m.bytes, head+idField...)
	idAt := at(uuidLen)
	m.bytes = append(m.bytes, "\r\n"...)
	timeAt, timeLen := 0, 0
	if timeField != "" {
		m.bytes = append(m.bytes, timeField...)
		timeAt, timeLen = at(unixTimeLen), unixTimeLen
		m.bytes = append(m.bytes, "\r\n"...)
	}
	m.bytes = append(m.bytes, signatureField...)
	signatureAt := at(signatureLen)
	m.bytes = append(m.bytes, fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", event.BodySize)...)
	bodyAt := len(m.bytes)
	m.bytes = append(m.bytes, event.Body(epoch, 0)...)

	m.id = m.bytes[idAt : idAt+uuidLen]
	m.timestamp = m.bytes[timeAt : timeAt+timeLen]
	m.signature = m.bytes[signatureAt : signatureAt+signatureLen]
	m.body = m.bytes[bodyAt:]
	return m, nil
}

// prepare makes the message that of event seq, sent at now, and returns the bytes to write.
func (m *message) prepare(seq uint32, now time.Time) []byte {
	event.SetSeq(m.body, seq)
	putUUID(m.id)
	m.mac.Reset()
	if m.signPrefix {
		putDecimal(m.timestamp, now.Unix())
		m.mac.Write(m.id)
		m.mac.Write([]byte{'.'})
		m.mac.Write(m.timestamp)
		m.mac.Write([]byte{'.'})
	}
	m.mac.Write(m.body)
	m.encode(m.signature, m.mac.Sum(m.sum[:0]))
	return m.bytes
}

// putUUID writes a random UUID (version 4, RFC 9562) over dst.
func putUUID(dst []byte) {
	var raw [16]byte
	// Read never fails: it ends the process when the system has no randomness.
	_, _ = rand.Read(raw[:])
	raw[6] = raw[6]&0x0f | 0x40
	raw[8] = raw[8]&0x3f | 0x80
	hex.Encode(dst[0:8], raw[0:4])
	hex.Encode(dst[9:13], raw[4:6])
	hex.Encode(dst[14:18], raw[6:8])
	hex.Encode(dst[19:23], raw[8:10])
	hex.Encode(dst[24:36], raw[10:16])
	dst[8], dst[13], dst[18], dst[23] = '-', '-', '-', '-'
}

// putDecimal fills dst with the last digits of n.
func putDecimal(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}
