package app

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"

	"sallyport/internal/identity"
	"sallyport/internal/identity/mails"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/secretbox"
)

// mailer hands the mails of people to the queue.
type mailer struct{ *mails.Service }

// Post implements identity.Mailer.
func (m mailer) Post(ctx context.Context, tx *sql.Tx, l identity.Letter) error {
	return m.Queue(ctx, tx, mails.Mail{Kind: l.Kind, About: l.About, To: l.To, Subject: l.Subject, Text: l.Text,
		Expires: l.Expires})
}

// Recall implements identity.Mailer.
func (m mailer) Recall(ctx context.Context, tx *sql.Tx, about string) error {
	return m.Drop(ctx, tx, about)
}

const maxPasswordFile = 4 << 10

// newMails returns what sends mails; without a mail server it sends none.
func newMails(cfg *config.Config, s *Store, clk clock.Clock, log *slog.Logger,
	metrics *obs.Metrics) (*mails.Service, error) {
	password, err := smtpPassword(cfg)
	if err != nil {
		return nil, err
	}
	name := "localhost"
	if u, err := url.Parse(cfg.PublicURL); err == nil && u.Hostname() != "" {
		name = u.Hostname()
	}
	return mails.New(mails.Config{DB: s.DB, Box: s.Box, Clock: clk, Logger: log, Metrics: metrics,
		Kinds: identity.LetterKinds(), Server: mails.Server{
			Address: cfg.SMTPAddress, Encryption: mails.Encryption(cfg.SMTPTLS), User: cfg.SMTPUser, Password: password,
			From: cfg.SMTPFrom, Name: name,
		}}), nil
}

func smtpPassword(cfg *config.Config) (secretbox.Secret, error) {
	if cfg.SMTPPasswordFile == "" {
		return cfg.SMTPPassword, nil
	}
	password, err := readSecretFile(cfg.SMTPPasswordFile, maxPasswordFile)
	if err == nil && password == "" {
		err = errEmptySecret
	}
	if err != nil {
		return "", fmt.Errorf("read smtp-password-file: %w", err)
	}
	return password, nil
}
