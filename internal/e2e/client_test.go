package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/sse"
)

// credentials add to a request what says who asks.
type credentials func(h http.Header)

func anonymous(http.Header) {}

// byKey asks with an API key.
func byKey(key string) credentials { return func(h http.Header) { h.Set("API-Key", key) } }

// byToken asks as a user, in an environment unless that is empty.
func byToken(token, environment string) credentials {
	return func(h http.Header) {
		h.Set("Authorization", "Bearer "+token)
		if environment != "" {
			h.Set("Environment-Id", environment)
		}
	}
}

// dev asks with the key of development mode.
func (w *world) dev() credentials { return byKey(w.key) }

// owner asks as the owner that development mode made, in the environment given.
func (w *world) user(environment string) credentials {
	w.t.Helper()
	return byToken(w.token(), environment)
}

// token signs the owner in, once for as long as the token works by the test's clock, which slow machines move on far: a
// sign-in is costly on purpose.
func (w *world) token() string {
	w.t.Helper()
	w.shared.mu.Lock()
	defer w.shared.mu.Unlock()
	if now := w.clk.Now(); w.shared.token == "" || !now.Before(w.shared.until) {
		w.shared.token, w.shared.until = w.login(w.email, w.password), now.Add(10*time.Minute)
	}
	return w.shared.token
}

func (w *world) login(email, password string) string {
	w.t.Helper()
	var s struct {
		AccessToken string `json:"access_token"`
	}
	w.signIn(email, password).into(w, &s)
	return s.AccessToken
}

func (w *world) signIn(email, password string) response {
	w.t.Helper()
	return w.call(anonymous, http.MethodPost, "/team/login", object{"email": email, "password": password}).want(w,
		http.StatusOK)
}

// cookie is the refresh cookie that the response sets, as a browser would send it.
func (a response) cookie(w *world) string {
	w.t.Helper()
	list := (&http.Response{Header: a.header}).Cookies()
	require.Len(w.t, list, 1)
	return list[0].Name + "=" + list[0].Value
}

// object is a JSON object.
type object = map[string]any

// raw is a request's body as it goes out.
type raw string

// response holds the parts of a response.
type response struct {
	method, path string
	status       int
	header       http.Header
	body         []byte
}

// call makes a request to the API. body is nil for none, raw for bytes, anything else for its JSON.
func (w *world) call(c credentials, method, path string, body any) response {
	w.t.Helper()
	var content io.Reader = http.NoBody
	switch b := body.(type) {
	case nil:
	case raw:
		content = strings.NewReader(string(b))
	default:
		text, err := json.Marshal(body)
		require.NoError(w.t, err)
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+prefix+path, content)
	require.NoError(w.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	c(r.Header)
	return w.send(r)
}

// send sends a request and checks what is true of every response.
func (w *world) send(r *http.Request) response {
	w.t.Helper()
	resp, err := w.http.Do(r)
	require.NoError(w.t, err)
	read := io.ReadAll
	if resp.Header.Get("Content-Type") == sse.ContentType && r.Method != http.MethodHead {
		read = func(r io.Reader) ([]byte, error) { return firstBlock(bufio.NewReader(r)) } // a stream has no end of its own
	}
	body, err := read(resp.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	a := response{method: r.Method, path: r.URL.EscapedPath(), status: resp.StatusCode, header: resp.Header, body: body}
	w.conforms(a)
	return a
}

// firstBlock reads a stream up to its first blank line.
func firstBlock(r *bufio.Reader) ([]byte, error) {
	var block []byte
	for {
		line, err := r.ReadBytes('\n')
		block = append(block, line...)
		if err != nil || len(line) == 1 {
			return block, err
		}
	}
}

// conforms checks a response against the conventions and the published document.
func (w *world) conforms(a response) {
	w.t.Helper()
	require.True(w.t, id.IsUUID(a.header.Get("X-Request-Id")), "%s %s: every answer carries a request id", a.method,
		a.path)
	if a.status >= http.StatusBadRequest && a.method != http.MethodHead {
		require.Equal(w.t, "application/json", a.header.Get("Content-Type"), "%s %s: %s", a.method, a.path, a.body)
		a.envelope(w)
	}
	if strings.HasPrefix(a.path, prefix) {
		published().check(w.t, a)
	}
}

// want requires a status.
func (a response) want(w *world, status int) response {
	w.t.Helper()
	require.Equal(w.t, status, a.status, "%s %s: %s", a.method, a.path, a.body)
	return a
}

// into reads the JSON body.
func (a response) into(w *world, v any) {
	w.t.Helper()
	require.NoError(w.t, json.Unmarshal(a.body, v), "%s", a.body)
}

// envelope is the one form of every error.
type envelope struct {
	Error struct {
		Code    apperr.Code     `json:"code"`
		Message string          `json:"message"`
		Details []apperr.Detail `json:"details"`
		ofCall
	} `json:"error"`
}

// ofCall is what only errors of calls to providers have.
type ofCall struct {
	Source       apperr.Source        `json:"source"`
	Retryable    *bool                `json:"retryable"`
	RetryAfterMS int64                `json:"retry_after_ms"`
	ExecutionID  string               `json:"execution_id"`
	Effect       apperr.Effect        `json:"effect"`
	Attempts     []apperr.CallAttempt `json:"attempts"`
	Upstream     *apperr.CallUpstream `json:"upstream"`
	Policy       *apperr.CallPolicy   `json:"policy"`
}

func (a response) envelope(w *world) envelope {
	w.t.Helper()
	var e envelope
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	require.NoError(w.t, d.Decode(&e), "%s %s: %d %s", a.method, a.path, a.status, a.body)
	require.NotEmpty(w.t, e.Error.Message)
	require.Equal(w.t, e.Error.Code, e.Error.Code.Info().Code, "an error code that is not registered")
	if want := e.Error.Code.Info().Status; want != 0 {
		require.Equal(w.t, want, a.status, "%s", a.body)
	}
	if e.Error.Code == apperr.CodeValidation {
		require.Equal(w.t, "Invalid request", e.Error.Message)
		require.NotEmpty(w.t, e.Error.Details)
	} else {
		require.Empty(w.t, e.Error.Details)
	}
	return e
}

// refused requires the status of a registered code, and the code in the envelope.
func (a response) refused(w *world, status int, code apperr.Code) envelope {
	w.t.Helper()
	a.want(w, status)
	e := a.envelope(w)
	require.Equal(w.t, code, e.Error.Code, "%s", a.body)
	return e
}

// violations requires a validation error and returns its entries as "location rule".
func (a response) violations(w *world) []string {
	w.t.Helper()
	e := a.refused(w, http.StatusUnprocessableEntity, apperr.CodeValidation)
	out := make([]string, 0, len(e.Error.Details))
	for _, d := range e.Error.Details {
		require.NotEmpty(w.t, d.Message)
		out = append(out, d.Location+" "+d.Rule)
	}
	return out
}

// environment returns the id of the team's environment of that name.
func (w *world) environment(name string) string {
	w.t.Helper()
	var me struct {
		Environments []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"environments"`
	}
	w.call(w.user(""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &me)
	for _, e := range me.Environments {
		if e.Name == name {
			return e.ID
		}
	}
	require.FailNow(w.t, "no environment "+name)
	return ""
}
