package sink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/wire"
)

// ErrBadForward reports a forward that differs from what its receiver was promised.
var ErrBadForward = errors.New("bad forward")

const signingSecretPrefix = "whsec_"

// Verifier checks forwards as a careful receiver would: signature by the reference library of Standard Webhooks,
// envelope, and the original body.
type Verifier struct {
	hook         *standardwebhooks.Webhook
	provider     string
	connectionID string
}

// NewVerifier returns a Verifier of forwards of that connection's events. The secret is used as the gateway documents
// it: with the prefix whsec_ the rest is base64, anything else is its own bytes.
func NewVerifier(signingSecret, provider, connectionID string) (*Verifier, error) {
	v := &Verifier{provider: provider, connectionID: connectionID}
	var err error
	if strings.HasPrefix(signingSecret, signingSecretPrefix) {
		v.hook, err = standardwebhooks.NewWebhook(signingSecret)
	} else {
		v.hook, err = standardwebhooks.NewWebhookRaw([]byte(signingSecret))
	}
	if err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}
	return v, nil
}

func (v *Verifier) verify(request *wire.Message, epoch, seq uint32) error {
	header := http.Header{}
	for _, name := range []string{
		standardwebhooks.HeaderWebhookID, standardwebhooks.HeaderWebhookTimestamp, standardwebhooks.HeaderWebhookSignature,
	} {
		header.Set(name, request.Header(name))
	}
	if !bytes.HasPrefix(request.StartLine, []byte("POST / ")) {
		return fmt.Errorf("%w: request line %q", ErrBadForward, request.StartLine)
	}
	if err := v.hook.Verify(request.Body, header); err != nil {
		return fmt.Errorf("%w: %w", ErrBadForward, err)
	}
	var envelope struct {
		ID           string          `json:"id"`
		Type         string          `json:"type"`
		Provider     string          `json:"provider"`
		ConnectionID string          `json:"connection_id"`
		Data         json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(request.Body, &envelope); err != nil {
		return fmt.Errorf("%w: envelope: %w", ErrBadForward, err)
	}
	var data bytes.Buffer
	if err := json.Compact(&data, envelope.Data); err != nil {
		return fmt.Errorf("%w: data: %w", ErrBadForward, err)
	}
	switch {
	case envelope.ID != header.Get(standardwebhooks.HeaderWebhookID):
		return fmt.Errorf("%w: id is not webhook-id", ErrBadForward)
	case envelope.Provider != v.provider || envelope.ConnectionID != v.connectionID:
		return fmt.Errorf("%w: provider %q, connection %q", ErrBadForward, envelope.Provider, envelope.ConnectionID)
	case !strings.HasPrefix(envelope.Type, "push"):
		return fmt.Errorf("%w: type %q", ErrBadForward, envelope.Type)
	case !bytes.Equal(data.Bytes(), event.Body(epoch, seq)):
		return fmt.Errorf("%w: data is not the original body", ErrBadForward)
	}
	return nil
}
