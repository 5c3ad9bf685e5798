package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// maxSecretFile bounds the files that hold one secret.
const maxSecretFile = 4 << 10

var (
	errSecretFile     = errors.New("the file is too large for a secret")
	errEmptySecret    = errors.New("the file is empty")
	errSetupTokenFile = errors.New("setup-token-file must hold one token of 32 to 256 printable characters without " +
		"spaces")
)

// KeysetSource returns where the keyset is.
func (c *Config) KeysetSource() secretbox.Source {
	if c.Keyset != "" {
		return secretbox.Source{Inline: c.Keyset}
	}
	return secretbox.Source{Path: c.KeysetFile}
}

// ReadSetupToken returns the configured setup token, from its file where it has one; empty without either.
func (c *Config) ReadSetupToken() (secretbox.Secret, error) {
	if c.SetupTokenFile == "" {
		return c.SetupToken, nil
	}
	token, err := readSecretFile(c.SetupTokenFile)
	if err != nil {
		return "", fmt.Errorf("read setup-token-file: %w", err)
	}
	if !isSetupToken(token) {
		return "", errSetupTokenFile
	}
	return token, nil
}

// ReadSMTPPassword returns the password for the mail server, from its file where it has one; empty without either.
func (c *Config) ReadSMTPPassword() (secretbox.Secret, error) {
	if c.SMTPPasswordFile == "" {
		return c.SMTPPassword, nil
	}
	password, err := readSecretFile(c.SMTPPasswordFile)
	if err == nil && password == "" {
		err = errEmptySecret
	}
	if err != nil {
		return "", fmt.Errorf("read smtp-password-file: %w", err)
	}
	return password, nil
}

// readSecretFile returns the content of a file, without the line end that editors add.
func readSecretFile(path string) (secretbox.Secret, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxSecretFile {
		return "", errSecretFile
	}
	b, err := os.ReadFile(path) //nolint:gosec // the operator chooses the file
	if err != nil {
		return "", err
	}
	return secretbox.Secret(strings.TrimSpace(string(b))), nil
}
