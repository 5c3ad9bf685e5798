package mails

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/mail"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// peer is a mail server of an independent library.
type peer struct {
	t       *testing.T
	address string
	roots   *x509.CertPool
	// stop ends the server, once.
	stop func()

	mu sync.Mutex
	// got are the accepted mails, refuse the response to the next recipient, and password the one that clients need.
	got      []received
	refuse   error
	password string
	// overTLS says of each attempt to authenticate whether the connection was encrypted.
	overTLS []bool
	tried   int
	// during, where set, runs once in the exchange of the next mail.
	during func()
}

// received is a mail that the peer has accepted.
type received struct {
	from, to string
	header   mail.Header
	body     string
	tls      bool
}

type session struct {
	p        *peer
	conn     *smtp.Conn
	from, to string
	known    bool
}

func (s *session) tls() bool { _, ok := s.conn.TLSConnectionState(); return ok }

func (s *session) AuthMechanisms() []string {
	if s.p.password == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		s.p.mu.Lock()
		defer s.p.mu.Unlock()
		s.p.overTLS = append(s.p.overTLS, s.tls())
		if username != "sallyport" || password != s.p.password {
			return smtp.ErrAuthFailed
		}
		s.known = true
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.p.password != "" && !s.known {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.p.mu.Lock()
	during := s.p.during
	s.p.during = nil
	s.p.mu.Unlock()
	if during != nil {
		during()
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.tried++
	s.to = to
	return s.p.refuse
}

func (s *session) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(m.Body)
	if err != nil {
		return err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.got = append(s.p.got, received{from: s.from, to: s.to, header: m.Header, body: string(body), tls: s.tls()})
	return nil
}

func (*session) Reset()        {}
func (*session) Logout() error { return nil }

// newPeer starts a mail server on a port of its own. Without a certificate it offers no STARTTLS.
func newPeer(t *testing.T, withTLS bool) *peer {
	t.Helper()
	p := &peer{t: t}
	p.listen("127.0.0.1:0", withTLS, false)
	return p
}

// listen starts the server at an address.
func (p *peer) listen(address string, withTLS, implicit bool) {
	p.t.Helper()
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{p: p, conn: c}, nil }))
	s.Domain, s.AllowInsecureAuth, s.ErrorLog = "mail.example.test", true, discard{}
	l, err := (&net.ListenConfig{}).Listen(p.t.Context(), "tcp", address)
	require.NoError(p.t, err)
	p.address = l.Addr().String()
	if withTLS {
		s.TLSConfig, p.roots = certificate(p.t)
	}
	if implicit {
		l = tls.NewListener(l, s.TLSConfig)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	p.stop = sync.OnceFunc(func() {
		// Closing the server before Serve knows the listener leaves that open, so it is closed here too.
		require.NoError(p.t, s.Close())
		_ = l.Close() // the server may have done so
		require.NoError(p.t, await.Value(p.t, "the end of the mail server", ended))
	})
	p.t.Cleanup(p.stop)
}

// discard drops the peer's log.
type discard struct{}

func (discard) Printf(string, ...any) {}
func (discard) Println(...any)        {}

// mails returns the mails that the peer has accepted.
func (p *peer) mails() []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]received(nil), p.got...)
}

func (p *peer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// certificate returns a certificate of 127.0.0.1 and its authority.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der},
		PrivateKey: key}}}, roots
}

// fixture is a Service over a fresh database.
type fixture struct {
	*Service
	store testkit.Store
	clk   *clock.Manual
	log   *bytes.Buffer
}

func newFixture(t *testing.T, store testkit.Store, server Server) fixture {
	t.Helper()
	f := fixture{store: store, clk: clock.NewManual(time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)), log: &bytes.Buffer{}}
	path := filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, secretbox.Create(path))
	box, err := secretbox.Open(secretbox.Source{Path: path})
	require.NoError(t, err)
	server.From, server.Name = "Sallyport <sallyport@gateway.example.test>", "gateway.example.test"
	f.Service = New(Config{DB: store.DB, Box: box, Clock: f.clk, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
		Server: server})
	return f
}

func (f fixture) queue(t *testing.T, m Mail) error {
	t.Helper()
	if m.Expires.IsZero() {
		m.Expires = f.clk.Now().Add(time.Hour)
	}
	return f.store.DB.Tx(t.Context(), func(tx *sql.Tx) error { return f.Queue(t.Context(), tx, m) })
}

// work does one round of the service's work.
func (f fixture) work(t *testing.T) {
	t.Helper()
	require.NoError(t, f.expire(t.Context()))
	require.NoError(t, f.Service.queue.RunDue(t.Context()))
}

// waiting is how many mails are in the queue.
func (f fixture) waiting(t *testing.T) int {
	t.Helper()
	var n int
	require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM mails").Scan(&n))
	return n
}

// counted returns how often mails of these tests had the outcome.
func (f fixture) counted(t *testing.T, outcome string) int {
	t.Helper()
	return int(testkit.Metric(t, f.Module().Metrics, "sallyport_mail_attempts_total", "kind", "invitation",
		"outcome", outcome))
}

func invitation() Mail {
	return Mail{Kind: "invitation", About: "inv_1", To: "grace@example.test", Subject: "An invitation to Søren & Co",
		Text: "Come in.\nspi_token\n"}
}

var errRolledBack = errors.New("rolled back")

// silence accepts a connection and sends nothing. The channel is closed when a client has connected.
func silence(t *testing.T) (connected <-chan struct{}, address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // ends Accept
	c := make(chan struct{})
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		close(c)
		_, _ = io.Copy(io.Discard, conn) // until the other side closes
	}()
	return c, l.Addr().String()
}
