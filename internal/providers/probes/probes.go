// Package probes tests credentials: it sends the requests that a definition declares for that, and judges what comes
// back. It stores nothing.
package probes

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
)

// Status is what a test says about a connection.
type Status string

// The statuses, from the best to the worst.
const (
	// Healthy: every probe succeeded.
	Healthy Status = "healthy"
	// Unknown: nothing was tested, because the definition has no probe.
	Unknown Status = "unknown"
	// Degraded: a probe failed, and it does not show that the credentials are refused: the provider is away or limits
	// requests, or a scope is missing.
	Degraded Status = "degraded"
	// Unhealthy: the provider refuses the credentials, or no request can be made from them.
	Unhealthy Status = "unhealthy"
)

// statuses returns every status in the order above.
func statuses() []Status { return []Status{Healthy, Unknown, Degraded, Unhealthy} }

// Schema returns the schema with the statuses, for the API.
func (Status) Schema(oas.Registry) *oas.Schema { return oas.Enum(statuses()) }

// Code is the reason of a status. Of requests that could not be made it is a code of package egress.
type Code string

// The codes.
const (
	CodeOK                 Code = "ok"
	CodeNoProbe            Code = "no_probe"
	CodeCredentialsRefused Code = "credentials_refused"
	CodeScopeMissing       Code = "scope_missing"
	CodeRateLimited        Code = "rate_limited"
	// CodeProviderError: the provider responded with a status that is none of the probe's.
	CodeProviderError Code = "provider_error"
	// CodeNotSendable: no request can be made from the credentials and the settings of the connection.
	CodeNotSendable Code = "not_sendable"
)

// Check is the outcome of one probe.
type Check struct {
	// Probe names the request without its host, such as "GET /user".
	Probe   string        `json:"probe"`
	Status  Status        `json:"status"`
	Code    Code          `json:"code"`
	Latency time.Duration `json:"latency"`
	// HTTPStatus is the status of the response; 0 without one.
	HTTPStatus int `json:"http_status,omitempty"`
	// Message says what is wrong: in the provider's words, with all credentials masked, or in ours. It is bounded.
	Message string `json:"message,omitempty"`
	// RequestID is the provider's id of the request; empty without one.
	RequestID string `json:"request_id,omitempty"`
}

// Report is the outcome of a test. Status and Code are those of the worst check, and the first of several.
type Report struct {
	Status Status
	Code   Code
	Checks []Check
	// Latency is the time that all probes took.
	Latency time.Duration
	// Account is the provider's account; empty if no probe has named it.
	Account outbound.Account
	// Config has values of connection_config that the probes have found.
	Config map[string]string
}

// Config holds the dependencies of a Prober.
type Config struct {
	Client *egress.Client
	Clock  clock.Clock
}

// Prober tests credentials. It is safe for concurrent use.
type Prober struct{ cfg Config }

// New returns a Prober.
func New(cfg Config) *Prober { return &Prober{cfg} }

const (
	// timeout limits one probe. People wait for the test.
	timeout = 10 * time.Second
	// maxResponseBytes is how much of a response is read. The definitions' pointers lie in small documents.
	maxResponseBytes = 1 << 20
)

// Run sends the probes of the values' mode, one after the other, and stops at the first that shows that the
// credentials are refused.
func (p *Prober) Run(ctx context.Context, e *outbound.Engine, v outbound.Values) Report {
	return p.RunObserved(ctx, e, v, nil)
}

// Observer is called with each response, before credentials in it are masked, and what it means.
type Observer func(r outbound.Response, v outbound.Verdict)

// RunObserved is Run for a caller that learns from the responses; nil does not.
func (p *Prober) RunObserved(ctx context.Context, e *outbound.Engine, v outbound.Values, observe Observer) Report {
	r := Report{Status: Unknown, Code: CodeNoProbe}
	v.Config = maps.Clone(v.Config)
	for _, probe := range e.Probes(v.Mode) {
		if !probe.Sent(v.Config) {
			continue
		}
		check, account, config := p.run(ctx, e, probe, v, observe)
		if len(r.Checks) == 0 || worse(check.Status, r.Status) {
			r.Status, r.Code = check.Status, check.Code
		}
		r.Checks = append(r.Checks, check)
		r.Latency += check.Latency
		if r.Account.ID == "" {
			r.Account = account
		}
		for name, value := range config {
			if r.Config == nil {
				r.Config = map[string]string{}
			}
			if v.Config == nil {
				v.Config = outbound.Config{}
			}
			r.Config[name], v.Config[name] = value, secretbox.Secret(value) // the next probe may need it
		}
		if check.Status == Unhealthy {
			break
		}
	}
	return r
}

// ErrAway is the error of a list of accounts that the provider cannot be asked for now.
var ErrAway = errors.New("the provider does not list the accounts at the moment")

// Choices returns the accounts that credentials can be used for, where the definition says that there can be several.
// It returns none if the provider lists none.
func (p *Prober) Choices(ctx context.Context, e *outbound.Engine, v outbound.Values) ([]outbound.Choice, error) {
	probe, field := e.ChoiceProbe(v.Mode)
	if probe == nil {
		return nil, nil
	}
	// The list does not depend on the choice, which would be taken for a credential where a header has it.
	v.Config = maps.Clone(v.Config)
	delete(v.Config, field)
	v.Now = p.cfg.Clock.Now()
	req, err := e.PrepareProbe(ctx, probe, v)
	if err != nil {
		return nil, nil //nolint:nilerr // the test of the credentials reports it
	}
	m := NewMasker(e, &v, req, nil)
	response, failure := p.send(req)
	if failure != nil || response.Status >= http.StatusInternalServerError ||
		response.Status == http.StatusTooManyRequests {
		return nil, ErrAway
	}
	response.Body = m.Bytes(response.Body, false)
	return slices.DeleteFunc(probe.Choices(e, response), func(c outbound.Choice) bool {
		return m.Shows(c.ID) || m.Shows(c.Label)
	}), nil
}

func worse(a, b Status) bool { return slices.Index(statuses(), a) > slices.Index(statuses(), b) }

func (p *Prober) run(ctx context.Context, e *outbound.Engine, probe *outbound.HealthProbe,
	v outbound.Values, observe Observer) (check Check, account outbound.Account, config map[string]string) {
	check.Probe = probe.String()
	v.Now = p.cfg.Clock.Now()
	req, err := e.PrepareProbe(ctx, probe, v)
	if err != nil {
		check.Status, check.Code, check.Message = Unhealthy, CodeNotSendable, "No request can be made: "+err.Error()
		return check, account, nil
	}
	m := NewMasker(e, &v, req, nil)
	response, failure := p.send(req)
	check.Latency, check.HTTPStatus = p.cfg.Clock.Now().Sub(v.Now), response.Status
	if failure != nil {
		check.Status, check.Code, check.Message = Degraded, Code(failure.Code), failure.Message
		return check, account, nil
	}
	if observe != nil {
		observe(response, e.Judge(response, p.cfg.Clock.Now()))
	}
	// Texts are masked before they are judged, which cuts them, and again, because JSON can spell a text in many ways.
	response.Body, response.Header = m.Bytes(response.Body, false), m.Header(response.Header)
	verdict, account, config := e.JudgeProbe(probe, v.Config, response, p.cfg.Clock.Now())
	check.RequestID, check.Message = m.Text(verdict.RequestID), m.Text(verdict.Message)
	check.Status, check.Code = judge(verdict)
	if m.Shows(account.ID) || m.Shows(account.Label) {
		account = outbound.Account{}
	}
	for name, value := range config {
		if m.Shows(value) {
			delete(config, name)
		}
	}
	return check, account, config
}

func judge(v outbound.Verdict) (Status, Code) {
	switch {
	case v.OK:
		return Healthy, CodeOK
	case v.AuthFailed:
		return Unhealthy, CodeCredentialsRefused
	case v.ScopeMissing:
		return Degraded, CodeScopeMissing
	case v.Limited:
		return Degraded, CodeRateLimited
	default:
		return Degraded, CodeProviderError
	}
}

// send sends a request and reads the response. It follows no redirect.
func (p *Prober) send(req *http.Request) (outbound.Response, *egress.Error) {
	resp, err := p.cfg.Client.RoundTripper(egress.Bounds{Timeout: timeout, MaxResponseBytes: maxResponseBytes}).
		RoundTrip(req)
	if err != nil {
		return outbound.Response{}, failureOf(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // the exchange is over; its errors came from the reading
	if err != nil {
		return outbound.Response{Status: resp.StatusCode}, failureOf(err)
	}
	return outbound.Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

func failureOf(err error) *egress.Error {
	var failure *egress.Error
	if errors.As(err, &failure) {
		return failure
	}
	return &egress.Error{Code: egress.CodeResponseInvalid, Message: "The target's response is not valid HTTP."}
}
