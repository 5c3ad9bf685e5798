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
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/subscriptions"
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
	// EventType is the type of the stored event.
	EventType string
	// Minimal reports that the body has only what the gateway reads from it.
	Minimal bool
	// Warnings point out a type that the provider is not known to send.
	Warnings []subscriptions.Warning
}

// ownSample marks the request of a sample.
type ownSample struct {
	// ordered reports that the caller chose the body. The signature of such a body is not stored, so that no receiver gets
	// it: otherwise a caller who may not read the secret could have any content signed with it.
	ordered bool
}

// refuseSample rejects a sample that comes from outside.
func refuseSample() *verification.Refusal {
	return &verification.Refusal{Reason: verification.ReasonSample, Message: "The webhook is a sample of a gateway, " +
		"which counts only at the connection for which it was made, and not when it is sent on."}
}

// SendSample makes a sample and sends it to the inbound endpoint, in the process. It is verified, stored, matched and
// forwarded as a webhook of the provider is, and counts as one. The secret does not leave the process.
//
// Errors: not_found; grant_denied or forbidden for data of a caller who may not publish events of the connection;
// webhook_sample_unavailable if the provider's signatures cannot be made here, the connection has no
// secret, is disabled or does not fit its definition; validation errors for a type or data of which no sample can be
// made; the errors of Receive.
func (s *Service) SendSample(ctx context.Context, p access.Principal, in SampleRequest) (SampleReceipt, error) {
	conn, err := s.conns.InboundOf(ctx, p.View(), in.ProviderConfigKey, in.ConnectionID)
	if err != nil {
		return SampleReceipt{}, err
	}
	c := &conn.Connection
	if in.Data != nil {
		if err := mayChoose(p, c.ConnectionID); err != nil {
			return SampleReceipt{}, err
		}
	}
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
	kind, err := s.sampleType(ctx, c, in.EventType)
	if err != nil {
		return SampleReceipt{}, err
	}
	order := verification.SampleOrder{Type: kind, Known: conn.Provider.Webhooks.KnownTypes(), Data: in.Data,
		ID: id.NewRandom(id.PrefixSample), PublicURL: s.opts.PublicURL, Path: in.Path + c.PathToken,
		RemoteIP: from, Now: s.clock.Now()}
	sample, err := conn.Verifier.Sample(ctx, order)
	if err != nil {
		return SampleReceipt{}, sampleError(conn, err)
	}
	if err := connections.RecordSample(ctx, s.db, p, c, order.ID, kind, order.Now); err != nil {
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
		Address: from, HTTP: r, sample: &ownSample{ordered: in.Data != nil}})
	switch {
	case apperr.Is(err, apperr.CodeSignatureInvalid), apperr.Is(err, apperr.CodeSignatureMissing):
		return SampleReceipt{}, sampleUnavailable("The connection has changed since the sample was signed. Send it again.")
	case err != nil:
		return SampleReceipt{}, err
	}
	obs.LineFrom(ctx).Add(slog.String("event_uuid", receipt.EventUUID))
	return SampleReceipt{Receipt: receipt, ID: order.ID, EventType: sample.Event.Type, Minimal: sample.Minimal,
		Warnings: s.subs.WarnUnknownType(c.Provider, kind)}, nil
}

// sampleType returns the type of the event for a type as the provider or its events write it.
func (s *Service) sampleType(ctx context.Context, c *connections.Connection, written string) (string, error) {
	rules, err := s.subs.TypeRules(ctx, c.Environment, subscriptions.Origin{Provider: c.Provider,
		ProviderConfigKey: c.ProviderConfigKey, ConnectionID: c.ConnectionID})
	if err != nil {
		return "", err
	}
	kind := rules.Normal(written)
	switch {
	case strings.Contains(kind, eventtypes.Wildcard):
		return "", invalidSample("event_type", "pattern", "must be one type: a sample of a pattern cannot be sent")
	case kind == "" || slices.Contains(strings.Split(kind, "."), ""):
		return "", invalidSample("event_type", "pattern", "must have no empty segment")
	case ownType(kind):
		return "", invalidSample("event_type", "reserved", messageReserved)
	}
	return kind, nil
}

func invalidSample(field, rule, message string) error {
	return apperr.Invalid(apperr.Detail{Location: field, Rule: rule, Message: message})
}

// mayChoose returns nil if the principal may choose the body of an event of the connection, as it may by publishing
// one.
func mayChoose(p access.Principal, connectionID string) error {
	if p.Kind == access.KindAPIKey {
		return p.Through(access.RouteEventsWrite).Require(access.RouteEventsWrite, connectionID)
	}
	return p.RequireIn(p.Environment, access.EventsWrite)
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
		return invalidSample("event_type", "sample", "is not a type that the definition of "+name+" and the connection's "+
			"parameters derive from a webhook; see how it derives types with `providers show "+in.Provider.Definition.Slug+"`")
	case errors.Is(err, verification.ErrSampleData):
		return invalidSample("data", "type", "must be an object, or an array with an object in it")
	default:
		return fmt.Errorf("make a sample: %w", err)
	}
}
