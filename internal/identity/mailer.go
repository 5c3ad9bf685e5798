package identity

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sallyport/internal/platform/apperr"
)

// Kinds of letters.
const (
	letterInvitation = "invitation"
	letterReset      = "password_reset"
)

// LetterKinds returns every kind of Letter.
func LetterKinds() []string { return []string{letterInvitation, letterReset} }

// Letter is a mail that this capability writes.
type Letter struct {
	// Kind is one of LetterKinds.
	Kind string
	// About is the id of what the mail tells of.
	About             string
	To, Subject, Text string
	// Expires is when the mail is of no use any more.
	Expires time.Time
}

// Mailer sends mails. The composition root fills it.
type Mailer interface {
	// Enabled reports whether there is a mail server.
	Enabled() bool
	// Post queues a mail in tx, to be sent when that is committed.
	Post(ctx context.Context, tx *sql.Tx, l Letter) error
	// Recall takes back the mails about something that have not been sent.
	Recall(ctx context.Context, tx *sql.Tx, about string) error
}

// MailBy sets who sends mails. It is called once, before the service is used; without it no mail is sent.
func (s *Service) MailBy(m Mailer) { s.mailer = m }

// Mails reports whether mails can be sent.
func (s *Service) Mails() bool { return s.mailer != nil && s.mailer.Enabled() }

var errNoMail = errors.New("no mail server is configured")

func errMailDisabled() error {
	return apperr.Wrap(apperr.CodeMailNotConfigured,
		"This installation sends no mail; ask an operator for another password", errNoMail)
}
