package mails

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/masking"
	"sallyport/internal/platform/secretbox"
)

// Encryption is how a connection to the mail server is secured.
type Encryption string

// The ways to secure a connection.
const (
	// StartTLS upgrades to TLS before it sends anything, and fails where the server does not offer that (RFC 3207).
	StartTLS Encryption = "starttls"
	// ImplicitTLS begins with TLS (RFC 8314).
	ImplicitTLS Encryption = "implicit"
	// NoTLS is for a server on the same machine or in a network that the operator trusts.
	NoTLS Encryption = "none"
)

// Server is the SMTP server that takes the mails.
type Server struct {
	// Address is host:port; empty where no mail is sent.
	Address    string
	Encryption Encryption
	// User and Password authenticate; both are empty where the server requires none. They need TLS.
	User     string
	Password secretbox.Secret
	// From is the sender, with or without a display name.
	From string
	// Name is the host name that we send in EHLO (RFC 5321, section 4.1.1.1).
	Name string
	// Roots verify the server's certificate; nil means the system's.
	Roots *x509.CertPool
}

// HostName returns the host of a URL as the Name of a Server: localhost if the URL has none.
func HostName(serviceURL string) string {
	if u, err := url.Parse(serviceURL); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return "localhost"
}

const (
	// stepTime bounds one step of the conversation, exchangeTime all of it.
	stepTime     = 15 * time.Second
	exchangeTime = time.Minute
)

// message is the sealed part of a mail.
type message struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// refusal is the server's refusal of one mail, by its SMTP status code. Its text stays out of the log, because it may
// name the recipient.
type refusal struct {
	code      int
	permanent bool
}

// Error returns a sentence with the status code.
func (r *refusal) Error() string {
	if r.code == 0 {
		return "the mail server ended the conversation"
	}
	return "the mail server refused the mail with status " + strconv.Itoa(r.code)
}

// send delivers one mail to the server. The error is a *refusal when it concerns this mail, and not the server.
func (s *Server) send(ctx context.Context, mailID string, at time.Time, m message) error {
	msg, err := s.compose(mailID, at, m)
	if err != nil {
		return &refusal{permanent: true}
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	client, err := s.client(ctx)
	if err != nil {
		return fmt.Errorf("prepare the connection to the mail server: %w", err)
	}
	if err := client.DialWithContext(ctx); err != nil {
		return fmt.Errorf("reach the mail server: %w", s.masked(err))
	}
	err = client.Send(msg)
	_ = client.Close() // the server has the mail or has refused it
	var refused *mail.SendError
	switch {
	case err == nil, msg.IsDelivered():
		return nil
	case errors.As(err, &refused):
		return &refusal{code: refused.ErrorCode(), permanent: refused.ErrorCode() >= 500}
	default:
		return &refusal{}
	}
}

// masked returns an error of the connection without the password: a server that refuses it may quote it.
func (s *Server) masked(err error) error {
	m := new(masking.Masker)
	m.Add(s.Password.Reveal())
	return &maskedError{error: err, text: m.Text(err.Error())}
}

// maskedError is an error with another text.
type maskedError struct {
	error
	text string
}

// Error returns the text.
func (e *maskedError) Error() string { return e.text }

// Unwrap returns the error.
func (e *maskedError) Unwrap() error { return e.error }

// client returns a client whose connection lives as long as ctx. The library's own context ends with its greeting.
func (s *Server) client(ctx context.Context) (*mail.Client, error) {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: s.Roots}
	options := []mail.Option{
		mail.WithPort(number), mail.WithTimeout(stepTime), mail.WithHELO(s.Name), mail.WithTLSConfig(config),
		mail.WithoutNoop(), mail.WithDialContextFunc(func(_ context.Context, _, address string) (net.Conn, error) {
			conn, err := egress.DialOperator(ctx, address, exchangeTime)
			if err != nil || s.Encryption != ImplicitTLS {
				return conn, err
			}
			return handshake(ctx, conn, config)
		}),
	}
	switch s.Encryption {
	case ImplicitTLS:
		options = append(options, mail.WithSSL())
	case StartTLS:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	case NoTLS:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if s.User != "" {
		// The mechanisms refuse a connection that is not encrypted themselves.
		options = append(options, mail.WithUsername(s.User), mail.WithPassword(s.Password.Reveal()),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	return mail.NewClient(host, options...)
}

func handshake(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secured, nil
}

// compose builds the mail as plain text. Its id is the same in every attempt, so that mailboxes recognise a mail that
// was sent twice because of a crash.
func (s *Server) compose(mailID string, at time.Time, m message) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := msg.From(s.From); err != nil {
		return nil, err
	}
	if err := msg.To(m.To); err != nil {
		return nil, err
	}
	sender, err := msg.GetSender(false)
	if err != nil {
		return nil, err
	}
	msg.SetMessageIDWithValue(mailID + strings.TrimSuffix(sender[strings.LastIndexByte(sender, '@'):], ">"))
	msg.SetDateWithValue(at)
	msg.Subject(m.Subject)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office replies
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	return msg, nil
}
