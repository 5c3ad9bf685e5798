package mails

import (
	"context"
	"crypto/x509"
	"database/sql"
	"mime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs/jobstest"
	"sallyport/internal/platform/testkit"
)

// A mail arrives as it was written: one recipient, plain text, our sender, an id of its own; over TLS where that is
// asked for.
func TestMailArrives(t *testing.T) {
	t.Parallel()
	for name, encryption := range map[string]Encryption{"starttls": StartTLS, "implicit": ImplicitTLS, "none": NoTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, store testkit.Store) {
				p := &peer{t: t}
				p.listen("127.0.0.1:0", encryption != NoTLS, encryption == ImplicitTLS)
				server := Server{Address: p.address, Encryption: encryption, Roots: p.roots}
				if encryption != NoTLS {
					p.password, server.User, server.Password = "open sesame", "sallyport", "open sesame"
				}
				f := newFixture(t, store, server)
				require.NoError(t, f.queue(t, invitation()))
				f.work(t)
				got := p.mails()
				require.Len(t, got, 1, f.log.String())
				require.Equal(t, []any{"sallyport@gateway.example.test", "grace@example.test", encryption != NoTLS},
					[]any{got[0].from, got[0].to, got[0].tls})
				require.Equal(t, "Come in.\r\nspi_token\r\n", got[0].body)
				subject, err := new(mime.WordDecoder).DecodeHeader(got[0].header.Get("Subject"))
				require.NoError(t, err)
				require.Equal(t, "An invitation to Søren & Co", subject)
				require.Regexp(t, `^<mail_[0-9a-z]{26}@gateway\.example\.test>$`, got[0].header.Get("Message-ID"))
				require.Equal(t, "Mon, 02 Nov 2026 09:30:00 +0000", got[0].header.Get("Date"))
				require.Equal(t, "auto-generated", got[0].header.Get("Auto-Submitted"))
				require.Contains(t, got[0].header.Get("Content-Type"), "text/plain")
				require.Equal(t, `"Sallyport" <sallyport@gateway.example.test>`, got[0].header.Get("From"))
				require.Zero(t, f.waiting(t))
				require.Equal(t, 1, f.counted(t, "sent"))
				f.work(t)
				require.Len(t, p.mails(), 1, "once")
				for _, encrypted := range p.overTLS {
					require.True(t, encrypted)
				}
			})
		})
	}
}

// A server that does not meet the operator's settings gets no mail and no password, and the mail is not lost.
func TestServersThatWillNotDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server func(p *peer) Server
		peer   func(p *peer)
		tls    bool
	}{
		"no STARTTLS": {server: func(p *peer) Server {
			return Server{Encryption: StartTLS, User: "sallyport", Password: "open sesame"}
		}, peer: func(p *peer) { p.password = "open sesame" }},
		"an unknown certificate": {server: func(*peer) Server {
			return Server{Encryption: StartTLS, Roots: x509.NewCertPool()}
		}, tls: true},
		"implicit TLS without": {server: func(p *peer) Server { return Server{Encryption: ImplicitTLS, Roots: p.roots} }},
		"the wrong password": {server: func(p *peer) Server {
			return Server{Encryption: StartTLS, Roots: p.roots, User: "sallyport", Password: "guess"}
		}, peer: func(p *peer) { p.password = "open sesame" }, tls: true},
		"no password where one needed": {server: func(p *peer) Server {
			return Server{Encryption: StartTLS, Roots: p.roots}
		}, peer: func(p *peer) { p.password = "open sesame" }, tls: true},
		"no authentication to be had": {server: func(p *peer) Server {
			return Server{Encryption: StartTLS, Roots: p.roots, User: "sallyport", Password: "open sesame"}
		}, tls: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, store testkit.Store) {
				p := newPeer(t, c.tls)
				if c.peer != nil {
					c.peer(p)
				}
				server := c.server(p)
				server.Address = p.address
				f := newFixture(t, store, server)
				require.NoError(t, f.queue(t, invitation()))
				f.work(t)
				require.Empty(t, p.mails())
				for _, encrypted := range p.overTLS {
					require.True(t, encrypted, "a password in the clear")
				}
				if name == "no password where one needed" { // the server refuses the mail, and that is final
					require.Equal(t, 1, f.counted(t, "refused"))
					return
				}
				require.Equal(t, 1, f.waiting(t), f.log.String())
				require.Equal(t, 1, f.counted(t, "failed"))
				for _, secret := range []string{"open sesame", "guess", "grace@example.test", "spi_token"} {
					require.NotContains(t, f.log.String(), secret)
				}
			})
		})
	}
}

// While the server is down mails wait, longer and longer up to a limit. When it is back they are sent.
func TestServerDownAndBack(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		p := newPeer(t, false)
		f := newFixture(t, store, Server{Address: p.address, Encryption: NoTLS})
		p.stop()
		m := invitation()
		m.Expires = f.clk.Now().Add(24 * time.Hour)
		require.NoError(t, f.queue(t, m))
		for _, seconds := range []int{5, 10, 20, 40, 80, 160, 320, 600, 600} {
			wait := time.Duration(seconds) * time.Second
			before := f.counted(t, "failed")
			f.work(t)
			require.Equal(t, before+1, f.counted(t, "failed"))
			f.clk.Advance(wait - time.Millisecond)
			f.work(t)
			require.Equal(t, before+1, f.counted(t, "failed"), "not before its time")
			f.clk.Advance(time.Millisecond)
		}
		p.listen(p.address, false, false)
		f.work(t)
		require.Len(t, p.mails(), 1, f.log.String())
		require.Zero(t, f.waiting(t))
	})
}

// A recipient that the server refuses permanently is not retried; one that it refuses for now is, and delays no other
// mail.
func TestRefusals(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		p := newPeer(t, false)
		f := newFixture(t, store, Server{Address: p.address, Encryption: NoTLS})
		p.set(func() { p.refuse = &smtp.SMTPError{Code: 450, Message: "grace@example.test is busy"} })
		require.NoError(t, f.queue(t, invitation()))
		require.NoError(t, f.queue(t, invitation()))
		f.work(t)
		require.Equal(t, 2, p.tried)
		require.Equal(t, 2, f.waiting(t))
		p.set(func() { p.refuse = &smtp.SMTPError{Code: 550, Message: "grace@example.test is unknown"} })
		f.clk.Advance(firstWait)
		f.work(t)
		require.Zero(t, f.waiting(t))
		require.Equal(t, 2, f.counted(t, "refused"))
		require.Equal(t, 2, f.counted(t, "failed"))
		require.Contains(t, f.log.String(), "550")
		require.NotContains(t, f.log.String(), "grace@example.test", "the server's text stays out of the log")
	})
}

// Nodes that share the queue send each mail once.
func TestNodes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		p := newPeer(t, false)
		server := Server{Address: p.address, Encryption: NoTLS}
		f := newFixture(t, store, server)
		for range 12 {
			require.NoError(t, f.queue(t, invitation()))
		}
		var all sync.WaitGroup
		for range 4 {
			node := New(f.cfg)
			all.Go(func() {
				for f.waiting(t) > 0 {
					if err := node.queue.RunDue(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		ids := map[string]bool{}
		for _, m := range p.mails() {
			ids[m.header.Get("Message-ID")] = true
		}
		require.Len(t, p.mails(), 12)
		require.Len(t, ids, 12)
	})
}

// The table keeps the promises of the queue.
func TestQueue(t *testing.T) {
	t.Parallel()
	jobstest.Conform(t, func(*testing.T, testkit.Store) jobstest.Fixture {
		return jobstest.Fixture{Table: table(),
			Insert: func(ctx context.Context, tx *sql.Tx, _ string, due time.Time) (string, error) {
				m := queued{id: id.New(id.PrefixMail), kind: "invitation", sealed: []byte("x"), expires: due.Add(time.Hour)}
				return m.id, insert(ctx, tx, m, "inv_1", due)
			}}
	})
}

// A mail whose transaction was rolled back, that was dropped, or that has expired is not sent.
func TestMailsThatAreNotSent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		p := newPeer(t, false)
		f := newFixture(t, store, Server{Address: p.address, Encryption: NoTLS})
		err := store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			m := invitation()
			m.Expires = f.clk.Now().Add(time.Hour)
			require.NoError(t, f.Queue(t.Context(), tx, m))
			return errRolledBack
		})
		require.ErrorIs(t, err, errRolledBack)
		require.Zero(t, f.waiting(t))
		require.NoError(t, f.queue(t, invitation()))
		require.NoError(t, store.DB.Tx(t.Context(), func(tx *sql.Tx) error { return f.Drop(t.Context(), tx, "inv_1") }))
		require.Zero(t, f.waiting(t))
		require.NoError(t, f.queue(t, invitation()))
		f.clk.Advance(time.Hour)
		f.work(t)
		require.Zero(t, f.waiting(t))
		require.Equal(t, 1, f.counted(t, "expired"))
		require.Empty(t, p.mails())

		off := newFixture(t, store, Server{})
		require.False(t, off.Enabled())
		require.ErrorIs(t, off.queue(t, invitation()), errDisabled)
	})
}

// A mail that expires while it is being sent was sent, and has not expired: it has one outcome.
func TestExpiryWhileSending(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		p := newPeer(t, false)
		f := newFixture(t, store, Server{Address: p.address, Encryption: NoTLS})
		m := invitation()
		m.Expires = f.clk.Now().Add(time.Second)
		require.NoError(t, f.queue(t, m))
		expired := make(chan error, 1)
		p.set(func() {
			p.during = func() {
				f.clk.Advance(time.Second)
				expired <- f.expire(t.Context())
			}
		})
		f.work(t)
		require.NoError(t, <-expired)
		f.work(t)
		require.Len(t, p.mails(), 1)
		require.Zero(t, f.waiting(t))
		require.Equal(t, []int{1, 0}, []int{f.counted(t, "sent"), f.counted(t, "expired")}, f.log.String())
		require.Empty(t, f.log.String())
	})
}

// A mail whose sender is gone is deleted when it has expired, once its lease has ended, also where no mail server is
// configured any more.
func TestExpiryOfAnAbandonedMail(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		silent, address := silence(t)
		f := newFixture(t, store, Server{Address: address, Encryption: NoTLS})
		m := invitation()
		m.Expires = f.clk.Now().Add(time.Second)
		require.NoError(t, f.queue(t, m))
		_, err := f.Service.queue.Claim(t.Context())
		require.NoError(t, err)
		<-silent
		f.clk.Advance(lease - time.Millisecond)
		require.NoError(t, f.expire(t.Context()))
		require.Equal(t, 1, f.waiting(t), "its sender may be alive")
		f.clk.Advance(time.Millisecond)
		off := newFixture(t, store, Server{})
		off.clk.Advance(f.clk.Now().Sub(off.clk.Now()))
		require.NoError(t, off.expire(t.Context()))
		require.Zero(t, f.waiting(t))
		require.Equal(t, 1, off.counted(t, "expired"))
		require.NoError(t, f.stop(t.Context()))
	})
}

// A mail that waits for its next attempt waits no longer than until it expires.
func TestExpiryBeforeTheNextAttempt(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		p := newPeer(t, false)
		f := newFixture(t, store, Server{Address: p.address, Encryption: NoTLS})
		p.set(func() { p.refuse = &smtp.SMTPError{Code: 450, Message: "busy"} })
		m := invitation()
		m.Expires = f.clk.Now().Add(firstWait / 2)
		require.NoError(t, f.queue(t, m))
		f.work(t)
		require.Equal(t, 1, f.counted(t, "failed"))
		f.clk.Advance(firstWait/2 - time.Millisecond)
		f.work(t)
		require.Equal(t, 1, f.waiting(t))
		f.clk.Advance(time.Millisecond)
		require.NoError(t, f.expire(t.Context()))
		require.Zero(t, f.waiting(t))
		require.Equal(t, 1, f.counted(t, "expired"))
		require.Equal(t, 1, p.tried)
	})
}

// No name can add a header, a recipient or a command: a mail with such a name is refused when it is queued.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		p := newPeer(t, false)
		f := newFixture(t, store, Server{Address: p.address, Encryption: NoTLS})
		for name, change := range map[string]func(m *Mail){
			"subject by CRLF":   func(m *Mail) { m.Subject = "x\r\nBcc: mallory@example.test" },
			"subject by LF":     func(m *Mail) { m.Subject = "x\nBcc: mallory@example.test" },
			"subject by CR":     func(m *Mail) { m.Subject = "x\rBcc: mallory@example.test" },
			"subject by NEL":    func(m *Mail) { m.Subject = "x\u0085Bcc: mallory@example.test" },
			"recipient by CRLF": func(m *Mail) { m.To = "grace@example.test>\r\nRCPT TO:<mallory@example.test" },
			"two recipients":    func(m *Mail) { m.To = "grace@example.test,mallory@example.test" },
		} {
			m := invitation()
			change(&m)
			require.ErrorIs(t, f.queue(t, m), errLine, name)
		}
		m := invitation()
		m.Subject = strings.Repeat("Bcc: mallory@example.test ", 20)
		m.Text = ".\r\nMAIL FROM:<mallory@example.test>\r\n.\n\nBcc: mallory@example.test\n"
		require.NoError(t, f.queue(t, m))
		f.work(t)
		got := p.mails()
		require.Len(t, got, 1, f.log.String())
		require.Equal(t, "grace@example.test", got[0].to)
		require.Empty(t, got[0].header.Get("Bcc"))
		require.Equal(t, "\"<grace@example.test>\"", `"`+got[0].header.Get("To")+`"`)
	})
}

// While a mail waits, the database holds neither its recipient nor its token.
func TestMailIsSealed(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		f := newFixture(t, store, Server{Address: "127.0.0.1:1", Encryption: NoTLS})
		require.NoError(t, f.queue(t, invitation()))
		var id string
		var sealed []byte
		require.NoError(t, store.DB.Read().QueryRowContext(t.Context(), "SELECT id, message FROM mails").Scan(&id, &sealed))
		require.NotContains(t, string(sealed), "spi_token")
		require.NotContains(t, string(sealed), "grace")
		plain, err := f.cfg.Box.Open(sealed, messageAD(id))
		require.NoError(t, err)
		require.Contains(t, string(plain), "spi_token")
	})
}

// A stop interrupts an exchange, and the mail is due again at the next start.
func TestStop(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		silent, address := silence(t)
		f := newFixture(t, store, Server{Address: address, Encryption: NoTLS})
		require.NoError(t, f.queue(t, invitation()))
		require.NoError(t, f.Service.queue.Start(t.Context()))
		<-silent // it has connected, and hears nothing
		require.NoError(t, f.stop(t.Context()))
		require.Zero(t, f.counted(t, "failed"))
		p := newPeer(t, false)
		f.cfg.Server.Address = p.address
		require.NoError(t, New(f.cfg).queue.RunDue(t.Context()))
		require.Len(t, p.mails(), 1)
	})
}
