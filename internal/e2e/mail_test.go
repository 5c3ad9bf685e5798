package e2e_test

import (
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/mail"
	"net/netip"
	"regexp"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// mailServer takes mails.
type mailServer struct {
	address string
	mu      sync.Mutex
	texts   []string
}

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	m := &mailServer{}
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return mailSession{m}, nil }))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.address = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, await.Value(t, "the end of the mail server", ended))
	})
	return m
}

type mailSession struct{ m *mailServer }

func (mailSession) Reset()                               {}
func (mailSession) Logout() error                        { return nil }
func (mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (mailSession) Rcpt(string, *smtp.RcptOptions) error { return nil }

func (s mailSession) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		return err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.texts = append(s.m.texts, m.Header.Get("To")+"\n"+m.Header.Get("Subject")+"\n"+string(text))
	return nil
}

// nth waits for the nth mail and returns it: recipient, subject and text.
func (m *mailServer) nth(w *world, n int) string {
	w.t.Helper()
	var text string
	w.ticking("a mail", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.texts) < n {
			return false
		}
		text = m.texts[n-1]
		return true
	})
	return text
}

// eachWithMail is each with a mail server.
func eachWithMail(t *testing.T, fn func(w *world, mails *mailServer), changes ...func(*config.Config)) {
	t.Helper()
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		t.Helper()
		mails, w := newMailServer(t), newWorld(t, databaseURL, dir)
		w.cfg.SMTPAddress, w.cfg.SMTPTLS, w.cfg.SMTPFrom = mails.address, config.SMTPNone,
			"Sallyport <sallyport@example.test>"
		for _, change := range changes {
			change(&w.cfg)
		}
		w.start()
		fn(w, mails)
	})
}

// A mailed link leads to the configured public URL, for any Host of the request, and resets a password once. Its token
// is in no log. A caller that asks too often waits, and cannot escape that by naming other addresses of the user.
func TestPasswordResetByMail(t *testing.T) {
	t.Parallel()
	// not this client
	trusted := func(c *config.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }
	eachWithMail(t, func(w *world, mails *mailServer) {
		forged := func(h http.Header) {
			h.Set("X-Forwarded-Host", "evil.example.test")
			h.Set("Forwarded", "host=evil.example.test")
			h.Set("Origin", "https://evil.example.test")
		}
		w.call(forged, http.MethodPost, "/team/password-reset", object{"email": w.email}).want(w, http.StatusAccepted)
		text := mails.nth(w, 1)
		require.NotContains(w.t, text, "evil")
		found := regexp.MustCompile(regexp.QuoteMeta(publicURL) +
			`(/password-reset)#(spr_[0-9a-z]{26})\r?\n`).FindStringSubmatch(text)
		require.NotNil(w.t, found, text)

		page := w.get(found[1]).want(w, http.StatusOK)
		require.Contains(w.t, page.header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(w.t, "no-referrer", page.header.Get("Referrer-Policy"))
		require.Contains(w.t, string(page.body), `data-post="/api/v1/team/password-reset/complete"`)
		w.get("/password.js").want(w, http.StatusOK)

		complete := func() response {
			return w.call(anonymous, http.MethodPost, "/team/password-reset/complete",
				object{"token": found[2], "password": "a password from the mail"})
		}
		complete().want(w, http.StatusNoContent)
		complete().refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
		w.call(anonymous, http.MethodPost, "/team/login", object{"email": w.email, "password": w.password}).want(w,
			http.StatusUnauthorized)
		w.call(anonymous, http.MethodPost, "/team/login",
			object{"email": w.email, "password": "a password from the mail"}).want(
			w, http.StatusOK)
		require.NotContains(w.t, w.logs.String(), found[2])

		refused := 0
		for i := range 30 {
			as := func(h http.Header) { h.Set("X-Forwarded-For", netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}).String()) }
			a := w.call(as, http.MethodPost, "/team/password-reset/complete", object{"token": "spr_00000000000000000000000000",
				"password": "a password from the mail"})
			if a.status == http.StatusTooManyRequests {
				refused++
			}
		}
		require.Positive(w.t, refused, "a forged address is not believed")
	}, trusted)
}

// An invitation goes to the address by mail, leads to the configured public URL for any Host of the request, and makes
// a member once, with the rights of the invitation. Its token is in no log, though the operation has it in its path.
func TestInvitationByMail(t *testing.T) {
	t.Parallel()
	eachWithMail(t, func(w *world, mails *mailServer) {
		forged := func(h http.Header) {
			w.user("")(h)
			h.Set("X-Forwarded-Host", "evil.example.test")
		}
		var made invitation
		a := w.call(forged, http.MethodPost, "/team/invitations", object{"email": "Grace@example.test", "role": "developer",
			"scope": object{"environment_id": w.env}})
		a.want(w, http.StatusCreated).into(w, &made)
		require.Equal(w.t, prefix+"/team/invitations/"+made.ID, a.header.Get("Location"))
		require.True(w.t, made.Mailed)
		text := mails.nth(w, 1)
		require.Contains(w.t, text, "grace@example.test")
		require.NotContains(w.t, text, "evil")
		found := regexp.MustCompile(regexp.QuoteMeta(publicURL) + `(/invitation)#(spi_[0-9a-z]{26})\r?\n`).FindStringSubmatch(
			text)
		require.NotNil(w.t, found, text)
		require.Equal(w.t, []string{publicURL + "/invitation#" + found[2], found[2]}, []string{made.URL, made.Token})
		w.call(w.user(""), http.MethodGet, "/team/invitations/"+made.ID, nil).want(w, http.StatusOK)

		page := w.get(found[1]).want(w, http.StatusOK)
		require.Contains(w.t, page.header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Contains(w.t, string(page.body), `data-post="/api/v1/team/invitations/{token}/accept"`)

		accept := func(token string) response {
			return w.call(anonymous, http.MethodPost, "/team/invitations/"+token+"/accept",
				object{"password": "a password of Grace"})
		}
		accept("spi_00000000000000000000000000").refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
		accept(found[2]).want(w, http.StatusCreated)
		accept(found[2]).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
		token := w.login("grace@example.test", "a password of Grace")
		w.call(byToken(token, w.env), http.MethodGet, "/connections", nil).want(w, http.StatusOK)
		w.call(byToken(token, ""), http.MethodGet, "/team/invitations", nil).refused(w, http.StatusForbidden,
			apperr.CodeForbidden)
		require.NotContains(w.t, w.logs.String(), found[2])
	})
}
