package app

import (
	"fmt"
	"log/slog"
	"net/url"

	"sallyport/internal/mails"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/secretbox"
)

const maxPasswordFile = 4 << 10

// newMails returns what sends mails; without a mail server it sends none.
func newMails(cfg *config.Config, s *Store, clk clock.Clock, log *slog.Logger, metrics *obs.Metrics) (*mails.Service, error) {
	password, err := smtpPassword(cfg)
	if err != nil {
		return nil, err
	}
	name := "localhost"
	if u, err := url.Parse(cfg.PublicURL); err == nil && u.Hostname() != "" {
		name = u.Hostname()
	}
	return mails.New(mails.Config{DB: s.DB, Box: s.Box, Clock: clk, Logger: log, Metrics: metrics, Server: mails.Server{
		Address: cfg.SMTPAddress, Encryption: mails.Encryption(cfg.SMTPTLS), User: cfg.SMTPUser, Password: password, From: cfg.SMTPFrom, Name: name,
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
