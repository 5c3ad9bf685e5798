package config

import (
	"net"
	"net/mail"
	"strings"
	"unicode"
)

// smtp checks that the settings of the mail server are complete. A setting that nothing would read is an error.
func (k *checker) smtp() {
	c := k.c
	if c.SMTPAddress == "" {
		const message = "requires smtp-address"
		k.require(c.SMTPUser == "", "smtp-user", message)
		k.require(c.SMTPPassword == "", "smtp-password", message)
		k.require(c.SMTPPasswordFile == "", "smtp-password-file", message)
		k.require(c.SMTPFrom == "", "smtp-from", message)
		return
	}
	host, port, _ := net.SplitHostPort(c.SMTPAddress)
	k.require(isHostPort(c.SMTPAddress) && host != "" && port != "0", "smtp-address",
		"is not an address such as mail.example.com:587")
	k.require(c.SMTPFrom != "", "smtp-from", "is required with smtp-address")
	k.require(c.SMTPFrom == "" || isSender(c.SMTPFrom), "smtp-from",
		"must be an e-mail address, with or without a name before it")
	k.require(c.SMTPPassword == "" || c.SMTPPasswordFile == "", "smtp-password",
		"cannot be given together with smtp-password-file")
	password := c.SMTPPassword != "" || c.SMTPPasswordFile != ""
	k.require(c.SMTPUser == "" || password, "smtp-user", "requires SALLYPORT_SMTP_PASSWORD or smtp-password-file")
	k.require(c.SMTPUser != "" || !password, "smtp-user", "is missing, although its password is set")
	k.require(c.SMTPUser == "" || c.SMTPTLS != SMTPNone, "smtp-user", "is sent over TLS only: smtp-tls cannot be none")
}

func isSender(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && strings.Contains(a.Address, "@") && !strings.ContainsFunc(s, unicode.IsControl)
}
