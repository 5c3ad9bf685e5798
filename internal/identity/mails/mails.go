// Package mails sends plain-text mails through the operator's SMTP server, from a queue in the database. A mail is
// queued in the transaction that causes it, so a slow mail server delays no request.
package mails

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/plaintext"
	"sallyport/internal/platform/secretbox"
)

// Mail is one mail to one person.
type Mail struct {
	// Kind is the purpose of the mail, as one word of a closed set; metrics and log carry it.
	Kind string
	// About is the id of the resource that the mail is about, by which Drop finds it.
	About string
	// To is one address without a display name.
	To      string
	Subject string
	// Text is the body, its lines ended by \n.
	Text string
	// Expires is when the mail is no longer useful.
	Expires time.Time
}

// Config configures a Service.
type Config struct {
	DB     *db.DB
	Box    *secretbox.Box
	Clock  clock.Clock
	Logger *slog.Logger
	// Kinds are those of the mails that will be queued.
	Kinds  []string
	Server Server
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	cfg     Config
	metrics metrics
	queue   *jobs.Queue
}

// New returns a Service.
func New(c Config) *Service {
	s := &Service{cfg: c, metrics: newMetrics(c.Kinds, func(ctx context.Context) (int64, error) {
		waiting, _, err := countQueued(ctx, c.DB.Read(), c.Clock.Now())
		return waiting, err
	})}
	s.queue = s.newQueue()
	return s
}

// Enabled reports whether mails can be sent at all.
func (s *Service) Enabled() bool { return s.cfg.Server.Address != "" }

// errLine is a programming error: headers of several lines are how mails are forged.
var errLine = errors.New("a mail's recipient and subject are one line each")

var errDisabled = errors.New("no mail server is configured")

// Queue stores a mail in tx. It is sent after the commit.
func (s *Service) Queue(ctx context.Context, tx *sql.Tx, m Mail) error {
	if !s.Enabled() {
		return errDisabled
	}
	if strings.ContainsFunc(m.To+m.Subject, plaintext.IsControl) || strings.ContainsAny(m.To, " ,;") {
		return errLine
	}
	plain, err := json.Marshal(message{To: m.To, Subject: m.Subject, Text: m.Text})
	if err != nil {
		return fmt.Errorf("encode a mail: %w", err)
	}
	mailID := id.New(id.PrefixMail)
	sealed, err := s.cfg.Box.Seal(plain, messageAD(mailID))
	if err != nil {
		return fmt.Errorf("seal a mail: %w", err)
	}
	return insert(ctx, tx, queued{id: mailID, kind: m.Kind, sealed: sealed, expires: m.Expires}, m.About,
		s.cfg.Clock.Now())
}

// Drop deletes the mails about a resource that have not been sent.
func (s *Service) Drop(ctx context.Context, tx *sql.Tx, about string) error {
	return deleteAbout(ctx, tx, about)
}

func messageAD(mailID string) secretbox.AD {
	return secretbox.AD{Table: "mails", Column: "message", RowID: mailID}
}

// sealedColumns lists the columns that a rotation of the keyset encrypts again.
func sealedColumns() []secretbox.Column {
	return []secretbox.Column{{Table: "mails", Column: "message", IDColumn: "id"}}
}
