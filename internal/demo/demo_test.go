package demo

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/testkit/await"
)

func options(t *testing.T) (Options, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	return Options{Out: &out, Logger: slog.New(slog.DiscardHandler), Clock: clock.System(), Version: "test",
		TempDir: t.TempDir(), Timeout: await.Limit}, &out
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The story has 13 lines, each of them true, and nothing stays behind.
func TestStory(t *testing.T) {
	t.Parallel()
	o, out := options(t)
	require.NoError(t, Run(t.Context(), o))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 13, out.String())
	for i, want := range []string{
		`gateway runs at http://127\.0\.0\.1:\d+`, `receiver`,
		`would post to http://127\.0\.0\.1:\d+/api/v1/webhook/whk_[0-9a-z]{26}\.`, `sub_[0-9a-z]{26} sends issues\.\*`,
		`response 200 after [\d.]+ ms`, `Standard Webhooks library accepts`, `issues\.opened.*"The gate is open"`,
		`not forwarded`, `401 signature_invalid.*signature_mismatch`,
		`http/shop holds the token`, `orders a lamp.* after [\d.]+ ms`,
		`orders nothing.*execution [0-9a-f-]{36}: allow, risk medium, succeeded after 1 attempt`, `removed again`,
	} {
		require.Regexp(t, want, lines[i])
	}
	requireEmpty(t, o.TempDir)
}

// signalling is a writer that says when it was given a text.
type signalling struct {
	want string
	seen func()
	all  strings.Builder
}

func (w *signalling) Write(b []byte) (int, error) {
	w.all.Write(b)
	if strings.Contains(string(b), w.want) {
		w.seen()
	}
	return len(b), nil
}

// With --keep the gateway stays until it is stopped, and then nothing of it remains.
func TestKeep(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	ctx, end := context.WithTimeout(t.Context(), await.Limit)
	defer end()
	w := &signalling{want: "In another terminal", seen: func() {
		left, err := os.ReadDir(o.TempDir)
		require.NoError(t, err)
		require.Len(t, left, 1)
		end()
	}}
	o.Out, o.Keep = w, true
	require.NoError(t, Run(ctx, o))
	require.NotErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	require.Contains(t, w.all.String(), "export SALLYPORT_DATA='"+o.TempDir)
	requireEmpty(t, o.TempDir)
}

// An interrupt in the middle, and a story that takes too long, end it with an error and leave nothing.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	o.Out = &signalling{want: " 3. ", seen: end}
	require.EqualError(t, Run(ctx, o), "interrupted")
	requireEmpty(t, o.TempDir)
	o, _ = options(t)
	o.Timeout = time.Nanosecond
	require.ErrorContains(t, Run(t.Context(), o), "did not go as it should")
	requireEmpty(t, o.TempDir)
}

// A gateway that does not do what the story says is found out: a signature that does not fit, a delivery that is
// refused, a forgery that is taken, and an action that has happened before.
func TestFindsOut(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	g, err := startGateway(t.Context(), o, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.stop(context.WithoutCancel(t.Context()))) })
	r, err := newReceiver(t.Context(), o.Clock)
	require.NoError(t, err)
	t.Cleanup(r.close)
	client := egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})
	t.Cleanup(client.Close)
	s := &stage{out: o.Out, clock: o.Clock, server: g.server, api: g.api, receiver: r, provider: client}
	require.NoError(t, s.connect(t.Context()))
	require.NoError(t, s.subscribe(t.Context()))

	ours := s.signingSecret
	s.signingSecret = "whsec_" + strings.Repeat("A", 32)
	require.ErrorContains(t, s.deliver(t.Context()), "does not accept the signature")
	s.signingSecret = ours
	require.ErrorContains(t, s.deliver(t.Context()), "delivery with 200", "the duplicate is no new event")
	secret := s.webhookSecret
	s.webhookSecret = "not the secret"
	require.ErrorContains(t, s.deliver(t.Context()), "delivery with 401")
	require.ErrorContains(t, s.resend(t.Context()), "delivery with 401")
	s.webhookSecret = secret
	require.ErrorContains(t, s.resend(t.Context()), "2 duplicates are on record")

	s.shop, err = newShop(t.Context(), "127.0.0.1:0", "token")
	require.NoError(t, err)
	t.Cleanup(s.shop.close)
	require.NoError(t, s.link(t.Context()))
	s.shop.orders = []order{{1, "a chair"}}
	require.ErrorContains(t, s.act(t.Context()), "the shop returned")
}

// The shop alone says where it is, takes and lists orders with its token, refuses what it does not understand, and ends
// with its context.
func TestServe(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	said := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, "127.0.0.1:0", writerFunc(func(text string) { said <- text }))
	}()
	at := regexp.MustCompile(`http://\S+/orders`).FindString(<-said)
	require.NotEmpty(t, at)
	ask := func(method, path, token, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode, strings.TrimSpace(string(text))
	}
	for _, c := range []struct {
		method, path, token, body string
		status                    int
		response                  string
	}{
		{"POST", "", shopToken, `{"item":"a lamp"}`, 201, `{"number":1,"item":"a lamp"}`},
		{"GET", "", shopToken, "", 200, `{"orders":[{"number":1,"item":"a lamp"}]}`},
		{"GET", "", "another", "", 401, `{"message":"Bad token"}`},
		{"POST", "", shopToken, `{}`, 422, `{"message":"item is missing"}`},
		{"PUT", "", shopToken, `{}`, 405, `{"message":"Orders are listed and made"}`},
		{"GET", "/1", shopToken, "", 404, `{"message":"There are only orders here"}`},
	} {
		status, response := ask(c.method, c.path, c.token, c.body)
		require.Equal(t, []any{c.status, c.response}, []any{status, response})
	}
	end()
	require.NoError(t, <-ended)
	require.Error(t, Serve(t.Context(), "nowhere", io.Discard))
}

// writerFunc is a writer that hands on what is written.
type writerFunc func(text string)

func (f writerFunc) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}
