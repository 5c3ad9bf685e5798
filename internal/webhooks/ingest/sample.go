package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/verification"
)

// SampleRequest asks for a sample: a webhook like one of the provider's, signed with the connection's secret, which
// takes the same way as one.
type SampleRequest struct {
	// ProviderConfigKey and ConnectionID name the connection.
	ProviderConfigKey, ConnectionID string
	EventType                       string
	// Data is the JSON of the body; nil for the definition's sample of that type, or else a minimal body.
	Data json.RawMessage
	// Path is the path of the inbound endpoint before the path token.
	Path string
	// Address is the caller's address.
	Address netip.Addr
}

// SampleReceipt is the result of a sample that was accepted.
type SampleReceipt struct {
	Receipt
	// ID is the sample's id: the value of the header Sallyport-Sample, and the provider's id of the event where its
	// definition derives one.
	ID string
}

// SendSample makes a sample and sends it to the inbound endpoint, in the process. It is verified, stored, matched and
// forwarded as a webhook of the provider is, and counts as one. The secret does not leave the process.
//
// Errors: not_found; webhook_sample_unavailable if the provider's signatures cannot be made here, the connection has no
// secret, is disabled or does not fit its definition; validation errors for a type or data of which no sample can be
// made; the errors of Receive.
func (s *Service) SendSample(ctx context.Context, p access.Principal, in SampleRequest) (SampleReceipt, error) {
	conn, err := s.conns.InboundOf(ctx, p.View(), in.ProviderConfigKey, in.ConnectionID)
	if err != nil {
		return SampleReceipt{}, err
	}
	c := &conn.Connection
	switch {
	case c.Status == connections.Disabled:
		return SampleReceipt{}, sampleUnavailable("The connection is disabled and accepts no webhooks. Enable it first.")
	case conn.Unusable:
		return SampleReceipt{}, sampleUnavailable("The connection rejects every webhook, because its settings do not fit " +
			"the provider's definition. Correct its parameters first.")
	}
	from, ok := senderFor(conn, in.Address)
	if !ok {
		return SampleReceipt{}, sampleUnavailable("The connection accepts webhooks from no network of the provider. " +
			"Correct its `source_cidrs` first.")
	}
	order := verification.SampleOrder{Type: in.EventType, Data: in.Data, ID: id.NewRandom(id.PrefixSample),
		PublicURL: s.opts.PublicURL, Path: in.Path + c.PathToken, RemoteIP: from, Now: s.clock.Now()}
	sample, err := conn.Verifier.Sample(ctx, order)
	if err != nil {
		return SampleReceipt{}, sampleError(conn, err)
	}
	if err := connections.RecordSample(ctx, s.db, p, c, order.ID, in.EventType, order.Now); err != nil {
		return SampleReceipt{}, err
	}
	target := url.URL{Path: order.Path, RawQuery: sample.RawQuery}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(sample.Body))
	if err != nil {
		return SampleReceipt{}, fmt.Errorf("make the request of a sample: %w", err)
	}
	r.Header = sample.Header
	// The type of a sample is what the caller wrote, which is not logged.
	receipt, err := s.Receive(obs.WithoutLine(ctx), Request{Segment: c.PathToken, Source: clientaddr.Host(from),
		Address: from, HTTP: r})
	switch {
	case apperr.Is(err, apperr.CodeSignatureInvalid), apperr.Is(err, apperr.CodeSignatureMissing):
		return SampleReceipt{}, sampleUnavailable("The connection has changed since the sample was signed. Send it again.")
	case err != nil:
		return SampleReceipt{}, err
	}
	obs.LineFrom(ctx).Add(slog.String("event_uuid", receipt.EventUUID))
	return SampleReceipt{Receipt: receipt, ID: order.ID}, nil
}

// senderFor returns the address from which a sample comes: the caller's, or where networks are restricted, the first
// of one that every restriction accepts.
func senderFor(in *connections.Inbound, caller netip.Addr) (netip.Addr, bool) {
	restrictions := slices.DeleteFunc([][]netip.Prefix{in.Sources, in.Verifier.Networks()}, func(l []netip.Prefix) bool {
		return len(l) == 0
	})
	fits := func(a netip.Addr) bool {
		return !slices.ContainsFunc(restrictions, func(l []netip.Prefix) bool { return !clientaddr.In(a, l) })
	}
	candidates := []netip.Addr{caller}
	for _, network := range slices.Concat(restrictions...) {
		candidates = append(candidates, network.Masked().Addr())
	}
	i := slices.IndexFunc(candidates, fits)
	if i < 0 {
		return netip.Addr{}, false
	}
	return candidates[i], true
}

func sampleUnavailable(message string) error {
	return apperr.New(apperr.CodeSampleUnavailable, message)
}

// sampleError is the error for a client of a sample that cannot be made.
func sampleError(in *connections.Inbound, err error) error {
	name := in.Provider.Definition.DisplayName
	switch {
	case errors.Is(err, verification.ErrSampleKeys):
		return sampleUnavailable("The provider signs its webhooks with a private key, which only it has, so the gateway " +
			"cannot sign a sample. Publish an event of your own for the connection (POST " +
			"/webhook-events), test the subscription (`subscriptions test`), or have the provider send a test.")
	case errors.Is(err, verification.ErrSampleSecret):
		return sampleUnavailable("The connection has no webhook secret to sign a sample with. Add one first.")
	case errors.Is(err, verification.ErrSampleType):
		return apperr.Invalid(apperr.Detail{Location: "body.event_type", Rule: "sample", Message: "is not a type that the " +
			"definition of " + name + " and the connection's parameters derive from a webhook; see how it derives types with " +
			"`providers show`"})
	case errors.Is(err, verification.ErrSampleData):
		return apperr.Invalid(apperr.Detail{Location: "body.data", Rule: "type", Message: "must be an object or an array"})
	default:
		return fmt.Errorf("make a sample: %w", err)
	}
}
