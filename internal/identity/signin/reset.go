package signin

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/mails"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// ResetToken is the token of a mail to reset one user's password, once.
type ResetToken = secretbox.Secret

const (
	// ResetLifetime is how long a token works.
	ResetLifetime = time.Hour
	// maxResets is how many tokens of a user work at the same time. Requests for more send no further mail, so that no
	// mailbox can be filled from here.
	maxResets = 3
	// resetInterval is how often SendResets looks for requests.
	resetInterval = time.Second

	purposeReset      Purpose = "password reset"
	purposeResetToken Purpose = "password reset token"
)

func resetTokenMAC(pepper installation.Pepper, t ResetToken) []byte {
	return pepper.MAC("password reset token", []byte(t.Reveal()))
}

// resetRequest is a request as it is sealed.
type resetRequest struct {
	Email     string `json:"email"`
	IP        string `json:"ip"`
	RequestID string `json:"request_id"`
}

func resetRequestAD(requestID string) secretbox.AD {
	return secretbox.AD{Table: "password_reset_requests", Column: "request", RowID: requestID}
}

// ResetRequestViolations returns what is wrong with the address that a link is asked for, at the location "email".
func ResetRequestViolations(email string) []apperr.Detail {
	var v apperr.Violations
	members.CheckEmail(&v, email)
	return v.Details()
}

// RequestReset requests a mail to the user with that address, with a link to reset their password. Its work and its
// response do not depend on whether there is such a user: SendResets looks for them. Every request counts against the
// address and the client, so RequestReset returns rate_limited after several, and mail_not_configured if no mail is
// sent.
func (s *Service) RequestReset(ctx context.Context, c access.Client, email string) error {
	if !s.mailsEnabled() {
		return errMailDisabled()
	}
	if violations := ResetRequestViolations(email); violations != nil {
		return apperr.Invalid(violations...)
	}
	at := addressAttempt(s.pepper, purposeReset, c)
	address := at.account
	at = Attempt{address: &address, account: bucket{id: bucketID(s.pepper, "account of "+string(purposeReset),
		strings.ToLower(email)), free: freeAccountFailures}}
	if err := s.throttle.admitAttempt(ctx, at); err != nil {
		return err
	}
	plain, err := json.Marshal(resetRequest{Email: email, IP: c.IP, RequestID: c.RequestID})
	if err != nil {
		return fmt.Errorf("encode a request for a link: %w", err)
	}
	requestID := id.NewUUID()
	sealed, err := s.box.Seal(plain, resetRequestAD(requestID))
	if err != nil {
		return fmt.Errorf("seal a request for a link: %w", err)
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		return insertResetRequest(ctx, tx, storedResetRequest{id: requestID, sealed: sealed, created: s.clock.Now()})
	})
}

// SendResets sends links to those who asked for one and have an account, and returns when to call it again, with the
// error that kept it from going on.
func (s *Service) SendResets(ctx context.Context) (time.Duration, error) {
	for ctx.Err() == nil {
		more, err := s.processReset(ctx)
		if err != nil || !more {
			return resetInterval, err
		}
	}
	return resetInterval, nil
}

// processReset handles the oldest request and reports whether there was one.
func (s *Service) processReset(ctx context.Context) (found bool, err error) {
	if !s.mailsEnabled() {
		return false, nil // another node may send mails
	}
	if waiting, err := anyResetRequest(ctx, s.db.Read()); err != nil || !waiting {
		return false, err
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		stored, ok, err := claimResetRequest(ctx, s.db, tx)
		found = ok
		if err != nil || !ok || s.clock.Now().Sub(stored.created) >= ResetLifetime {
			return err // the user has asked again since
		}
		var r resetRequest
		plain, err := s.box.Open(stored.sealed, resetRequestAD(stored.id))
		if err != nil {
			return nil //nolint:nilerr // its keyset is gone; the user will ask again
		}
		if err := json.Unmarshal(plain, &r); err != nil {
			return fmt.Errorf("read a request for a link: %w", err)
		}
		return s.sendReset(ctx, tx, r)
	})
	return found, err
}

func (s *Service) sendReset(ctx context.Context, tx *sql.Tx, r resetRequest) error {
	now := s.clock.Now()
	address, _ := members.NormalizeEmail(r.Email)
	a, known, err := members.ReadAccount(ctx, tx, address)
	// A user who never had a password here signs in with an identity provider. A mailbox must not bypass it.
	if err != nil || !known || a.Team == "" || a.PasswordHash == unknownUser().String() {
		return err
	}
	if _, member, err := members.ReadPrincipal(ctx, tx, a.Team, a.User.ID, "", now); err != nil || !member {
		return err // disabled, and no user who can sign in
	}
	live, err := countResets(ctx, tx, a.User.ID, now)
	if err != nil || live >= maxResets {
		return err
	}
	token := ResetToken(id.NewRandom(id.PrefixResetToken))
	if err := insertReset(ctx, s.db, tx, resetTokenMAC(s.pepper, token), a.User.ID, now); err != nil {
		return err
	}
	err = s.mails.Queue(ctx, tx, mails.Mail{
		Kind: ResetMail, About: a.User.ID, To: a.User.Email, Subject: "Reset your password", Text: resetText(s.issuer, token),
		Expires: now.Add(ResetLifetime),
	})
	if err != nil {
		return err
	}
	actor := access.System("password reset")
	actor.IP, actor.RequestID = r.IP, r.RequestID
	return audit.Record(ctx, tx, now, audit.Event{
		Team: a.Team, Actor: actor, Action: "user.request_password_reset", TargetType: "user", TargetID: a.User.ID,
	})
}

// resetText is the mail. Its link leads to the configured public URL, regardless of the request's Host, and carries the
// token behind the #, which browsers do not send.
func resetText(issuer string, token ResetToken) string {
	return "A password reset was requested for your account at " + issuer + ".\n\n" +
		"To choose another password, open this link within an hour:\n\n" +
		issuer + ResetPage + "#" + token.Reveal() + "\n\n" +
		"If it was not you, do nothing: your password stays as it is.\n"
}

// ResetPage is the path of the page that a mailed link opens, below the public URL.
const ResetPage = "/password-reset"

// ResetViolations returns what is wrong with a reset, at the names of its fields in the API.
func ResetViolations(token ResetToken, password secretbox.Secret) []apperr.Detail {
	var v apperr.Violations
	CheckPassword(&v, "password", password, "")
	return slices.Concat(TokenViolations(token), v.Details())
}

var errResetToken = errors.New("no such password reset token")

// CompleteReset gives the user whom a token was mailed to another password and ends all their sessions; an
// authenticator app stays. The token and all others of the user are worth nothing afterwards. It returns unauthorized
// for a token that does not work, validation_error for a password that breaks a rule, which leaves the token as it is,
// and rate_limited after many wrong tokens from the client's address.
func (s *Service) CompleteReset(ctx context.Context, c access.Client, token ResetToken,
	password secretbox.Secret) error {
	if violations := ResetViolations(token, password); violations != nil {
		return apperr.Invalid(violations...)
	}
	at, err := s.Admit(ctx, purposeResetToken, c)
	if err != nil {
		return err
	}
	if !id.Is(id.PrefixResetToken, token.Reveal()) {
		return apperr.Unauthorized(errResetToken)
	}
	given := resetTokenMAC(s.pepper, token)
	mailed, ok, err := readReset(ctx, s.db.Read(), given, s.clock.Now())
	if err != nil {
		return err
	}
	if !ok {
		return apperr.Unauthorized(errResetToken)
	}
	var v apperr.Violations
	CheckPassword(&v, "password", password, mailed.Email)
	if err := v.Err(); err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		now := s.clock.Now()
		user, ok, err := useReset(ctx, tx, given, now)
		if err != nil {
			return err
		}
		a, known, err := members.ReadAccount(ctx, tx, mailed.Email)
		if err != nil {
			return err
		}
		if !ok || !known || a.User.ID != user || a.Team == "" {
			return apperr.Unauthorized(errResetToken)
		}
		if err := s.mails.Drop(ctx, tx, user); err != nil {
			return err
		}
		if err := s.resetPassword(ctx, tx, c.User(a.User.ID, a.User.Email, a.Team), a, hash, password); err != nil {
			return err
		}
		return forgiveAttempt(ctx, tx, at)
	})
}
