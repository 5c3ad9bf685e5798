// Package httpapi is the HTTP framework of every capability: operations declared with their permission, one error
// envelope, authentication, client addresses, request ids, the OpenAPI document and its viewer. It wraps Huma, so that
// no capability sets security, errors or paging by hand.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/turnstile"
)

// Prefix is the path under which every operation is mounted.
const Prefix = "/api/v1"

// Authenticator resolves credentials to principals. internal/identity/principals implements it.
type Authenticator interface {
	// APIKey returns the principal of a key that a client sent from an IP address. Errors: unauthorized, api_key_expired.
	APIKey(ctx context.Context, key, ip string) (access.Principal, error)
	// KnowsAPIKey reports whether a key was read lately, and reads nothing. Others are guesses, as far as anyone knows.
	KnowsAPIKey(key string) bool
	// Bearer returns the principal of a user's token. Errors: unauthorized.
	Bearer(ctx context.Context, token string) (access.Principal, error)
	// Environment returns an environment in which the user has any permission. Errors: not_found.
	Environment(ctx context.Context, p access.Principal, environment string) (id.Environment, error)
}

// Config configures an API.
type Config struct {
	Version        string
	Logger         *slog.Logger
	Clock          clock.Clock
	Auth           Authenticator
	TrustedProxies []netip.Prefix
	// Limits are the rate limits of operations.
	Limits Limits
	// Idempotency stores the responses to requests with an Idempotency-Key.
	Idempotency *idempotency.Store
	// LoopbackHostsOnly rejects requests whose Host is neither a loopback name nor OwnHost. It protects development mode
	// against DNS rebinding.
	LoopbackHostsOnly bool
	// OwnHost is the host name of the public URL, without a port.
	OwnHost string
	// Ready returns why the service cannot work, or nil. /readyz calls it.
	Ready func(ctx context.Context) error
	// Elsewhere, if set, is the message of the error that every request gets except those for health: the node serves no
	// operations.
	Elsewhere string
	// Keys, if set, records the use of API keys.
	Keys KeyUses
	// Observe, if set, is called after every response with the route's pattern, the status code and the duration.
	Observe func(route string, status int, seconds float64)
}

// KeyUses records requests with API keys. Its methods must not block.
type KeyUses interface {
	// KeySeen records an admitted request. operation is its method and path.
	KeySeen(keyID, ip, userAgent, operation string)
	// KeyAnswered records the status code of the response to a request with a valid key, by the route that it needs.
	KeyAnswered(keyID string, route access.Route, status int)
}

// largeResponses is how many large responses are in memory at a time, largeEach how many of one environment, and
// largeWait how long another one waits; see TakeLarge. A client that reads slowly holds a place for largeGrace and the
// time that its response takes at largeRate bytes a second, and is then cut off: otherwise two environments with slow
// clients would leave no place to others. A response of the usual 1 MiB holds it for less time than another one waits.
const (
	largeResponses, largeEach = 4, 2
	largeWait                 = 20 * time.Second
	largeGrace                = 10 * time.Second
	largeRate                 = 1 << 20
)

// introduction is the description of the whole API.
const introduction = "Sallyport receives the webhooks of providers, verifies and stores them, and forwards them, " +
	"signed " +
	"and with retries, to your subscriptions.\n\n" +
	"**Authentication.** Send an API key as `API-Key`. A key belongs to one environment. Or send a user's access token " +
	"as " +
	"`Authorization: Bearer <token>`, with the environment as `Environment-Id` where an operation works on one.\n\n" +
	"**Errors.** Every error has the form `{\"error\": {\"code\": \"…\", \"message\": \"…\"}}`. Programs use the code, " +
	"which is " +
	"one of a fixed set. `details` lists the validation errors that were found.\n\n" +
	"**Lists.** A list is a JSON array. `Link` and `X-Next-Cursor` of the response lead to the next page.\n\n" +
	"**Changes.** The body of a PATCH is a JSON merge patch (RFC 7396), as `application/merge-patch+json` or as " +
	"`application/json`: absent fields stay, `null` clears a field, objects merge, and arrays are replaced. " +
	"The description of a field says if it departs from that, as `credentials` do, which replace all that are " +
	"stored.\n\n" +
	"**Versions.** Everything that a PATCH changes has a version, in `ETag` of the response. Send it as `If-Match` with " +
	"a change, and the change is refused with 412 `precondition_failed` if someone else has changed the resource since. " +
	"Without `If-Match`, changes of one resource are made one after the other.\n\n" +
	"**Times** are RFC 3339 in UTC, with milliseconds."

// API collects operations and serves them.
type API struct {
	cfg  Config
	mux  *http.ServeMux
	huma huma.API
	ops  []Operation
	// large lets few large responses at a time into memory.
	large *turnstile.Gate
	// exchanges and describe are for the document; see describeFields.
	exchanges []exchange
	describe  func() error
	paths     paths
	// ready runs closePaths once.
	ready func()
	// guesses holds the look-ups of credentials for addresses over their limit.
	guesses chan struct{}
}

// New returns an API with the health and documentation routes in place.
func New(cfg Config) *API {
	setHumaOnce()
	a := &API{cfg: cfg, mux: http.NewServeMux(),
		paths: paths{mux: http.NewServeMux(), methods: map[string][]string{}}, guesses: make(chan struct{}, maxGuesses),
		large: turnstile.New(largeResponses, largeEach, largeWait, "Too many large responses are being sent; retry later")}
	a.ready = sync.OnceFunc(a.closePaths)
	a.describe = sync.OnceValue(a.describeFields)
	hc := huma.DefaultConfig("Sallyport", cfg.Version)
	hc.OpenAPIPath, hc.DocsPath, hc.SchemasPath = "", "", ""
	hc.CreateHooks = nil // no $schema links in responses
	hc.DefaultFormat = "application/json"
	hc.Formats = map[string]huma.Format{"application/json": jsonFormat()}
	hc.Components.Schemas = huma.NewMapRegistry(schemaPrefix, schemaName)
	hc.Components.SecuritySchemes = securitySchemes()
	hc.Components.Headers = rateHeaders()
	hc.Info.Description = introduction
	hc.Servers = []*huma.Server{{URL: Prefix}}
	a.huma = huma.NewAPI(hc, adapter{a})
	a.handle("GET /healthz", http.HandlerFunc(a.healthz))
	a.handle("GET /readyz", http.HandlerFunc(a.readyz))
	if cfg.Elsewhere == "" {
		a.mountDocs()
	}
	return a
}

// setHumaOnce sets the two package variables through which Huma is configured for a whole process.
var setHumaOnce = sync.OnceFunc(func() { //nolint:gochecknoglobals // Huma offers no other place
	huma.DefaultArrayNullable = false
	// encoding/json matches names case-insensitively. Without this a field could be sent under an undocumented name.
	huma.ValidateStrictCasing = true
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return newWireError(nil, status, msg, errs...)
	}
	huma.NewErrorWithContext = newWireError
})

// Handle mounts a plain handler next to the operations, for routes whose bodies others define. The pattern is one of
// http.ServeMux. The routes are added to the document.
func (a *API) Handle(pattern string, h http.Handler, routes ...Route) {
	a.handle(pattern, h)
	for _, r := range routes {
		a.huma.OpenAPI().AddOperation(r.operation(a))
	}
}

// Operations returns every operation registered, for the tests that check their declarations.
func (a *API) Operations() []Operation { return a.ops }

// Schema registers the schema of v and returns a reference to it.
func (a *API) Schema(v any) *oas.Schema {
	return a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

// schemaName names schemas by package and type, so that equal type names of two capabilities do not collide.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	pkg := t.PkgPath()
	pkg = strings.TrimSuffix(pkg[strings.LastIndexByte(pkg, '/')+1:], "http")
	if t.Name() == "" || pkg == "" || pkg == "httpapi" {
		return name
	}
	if published := publishedPrefixes()[pkg]; published != "" {
		pkg = published
	}
	return pkg + "." + name
}

// publishedPrefixes returns the prefix of schema names for each package whose own name differs from it. Generated
// clients name their types after the published schemas: a package may be renamed or split, its schemas keep their
// names.
func publishedPrefixes() map[string]string {
	published := map[string]string{"events": "webhookevents"}
	for _, pkg := range []string{"apikeys", "invitations", "members", "setup", "signin", "team", "wire"} {
		published[pkg] = "identity"
	}
	return published
}

type adapter struct{ a *API }

func (ad adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	meta, ok := op.Metadata["operation"].(Operation)
	if !ok {
		return
	}
	limitParameters(op)
	query, body := queryOf(op), bodySchema(op)
	checks, _ := op.Metadata["rules"].(*rules)
	registry := ad.a.huma.OpenAPI().Components.Schemas
	ad.a.handle(op.Method+" "+Prefix+op.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{challenge: challenge, rules: checks}
		r, p, err := ad.a.authorize(withCall(r, c), meta)
		c.request = r
		c.enterLarge = func(ctx context.Context) (leave func(), err error) {
			leave, err = ad.a.large.Enter(ctx, cmp.Or(string(p.Environment), string(p.Team)))
			if rec, ok := w.(*recorder); ok && err == nil {
				rec.large = true
			}
			return leave, err
		}
		defer c.endLarge()
		defer func() {
			if rec, ok := w.(*recorder); ok && c.keyID != "" && ad.a.cfg.Keys != nil {
				ad.a.cfg.Keys.KeyAnswered(c.keyID, meta.Route, rec.status)
			}
		}()
		if !c.misplaced { // a misplaced credential is no guess
			if tooMany := ad.a.countRequest(w, r, p, err); tooMany != nil {
				err = tooMany
			}
		}
		if err != nil {
			WriteError(w, r, err)
			return
		}
		// Otherwise a shared cache could store responses to requests with API-Key, which it does not recognise as a
		// credential (RFC 9111 section 3.5).
		w.Header().Set("Cache-Control", "no-store")
		if !meta.acceptUpload(w, r, c, registry, body) {
			return
		}
		c.violations = append(meta.addEnvironment(r), query.read(r)...)
		if op.RequestBody == nil {
			c.violations = append(c.violations, strayBody(w, r)...)
		}
		serve := func(w http.ResponseWriter, r *http.Request) {
			if body != nil {
				r.Body = &observedBody{ReadCloser: r.Body, observe: func(b []byte) {
					c.body = b
					c.violations = append(c.violations, inspectBody(b, registry, body)...)
				}}
			}
			handler(humago.NewContext(op, r, w))
		}
		acceptMergePatch(r)
		out := meta.ifNoneMatch(w, r, c)
		r = meta.ifMatch(r, c)
		if key := meta.idempotencyKey(r, c); key != "" {
			ad.a.serveOnce(out, r, meta, key, serve)
			return
		}
		serve(out, r)
	}))
}

func (ad adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { ad.a.mux.ServeHTTP(w, r) }

func (a *API) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Ready != nil {
		if err := a.cfg.Ready(r.Context()); err != nil {
			var e *apperr.Error
			if !errors.As(err, &e) {
				err = apperr.Unavailable(err)
			}
			WriteError(w, r, err)
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}
