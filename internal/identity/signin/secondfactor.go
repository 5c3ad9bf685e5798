package signin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/secretbox"
)

// Wrong codes with the right password make the next code wait: given time, an attacker could try all million codes.
// Strangers cannot cause it, recovery codes work meanwhile, and the count has no end but a right code.
const (
	freeWrongCodes = 5
	firstCodeDelay = 30 * time.Second
	maxCodeDelay   = time.Hour
)

// codeDelay is how long after so many wrong codes in a row the next one has to wait.
func codeDelay(failures int64) time.Duration {
	over := failures - freeWrongCodes
	if over < 0 {
		return 0
	}
	const doublings = 7 // 64 minutes, which is over maxCodeDelay
	return min(maxCodeDelay, firstCodeDelay<<min(over, doublings))
}

// Responses to a sign-in with the right password.
func errCodeRequired() error {
	return apperr.New(apperr.CodeTOTPRequired, "A code of the authenticator app, or a recovery code, is needed too")
}

func errCodeInvalid() error {
	return apperr.New(apperr.CodeTOTPInvalid, "The code is wrong or was used before")
}

// ErrWrongCode says that a code is not of the authenticator app, or was used before.
var ErrWrongCode = errors.New("the code is wrong or was used before")

func errNoTOTP() error { return apperr.NotFound("authenticator app") }

// TOTPState says how far a user's authenticator app has come.
type TOTPState string

// The states of an authenticator app.
const (
	// TOTPOff: the user signs in without.
	TOTPOff TOTPState = "off"
	// TOTPPending: it was enrolled and waits for its first code; the user signs in without.
	TOTPPending TOTPState = "pending"
	// TOTPOn: it is asked for.
	TOTPOn TOTPState = "on"
)

// totpStates returns every state.
func totpStates() []TOTPState { return []TOTPState{TOTPOff, TOTPPending, TOTPOn} }

// Schema returns the schema with the states, for the API.
func (TOTPState) Schema(oas.Registry) *oas.Schema { return oas.Enum(totpStates()) }

// TOTP describes a user's authenticator app.
type TOTP struct {
	State TOTPState
	// CreatedMillis is when it was enrolled, in Unix milliseconds; nil where there is none.
	CreatedMillis *int64
	// RecoveryCodes is how many recovery codes are left.
	RecoveryCodes int
}

// TOTP returns the state of the actor's authenticator app.
func (s *Service) TOTP(ctx context.Context, actor access.Principal) (TOTP, error) {
	if actor.Kind != access.KindUser {
		return TOTP{}, team.ErrActor
	}
	stored, ok, err := readTOTP(ctx, s.db.Read(), actor.ID)
	if err != nil || !ok {
		return TOTP{State: TOTPOff}, err
	}
	out := TOTP{State: TOTPPending, CreatedMillis: &stored.createdMillis}
	if stored.confirmedMillis == nil {
		return out, nil
	}
	out.State = TOTPOn
	out.RecoveryCodes, err = countRecoveryCodes(ctx, s.db.Read(), actor.ID)
	return out, err
}

// EnrolTOTP creates a secret for the actor's authenticator app. Sign-ins require no code until ConfirmTOTP; until then
// another enrolment replaces this one. EnrolTOTP requires the password, so that access to a signed-in browser is not
// enough to lock its user out. It returns ErrWrongPassword, totp_active if there is a confirmed app, and rate_limited
// and unavailable as Login does.
func (s *Service) EnrolTOTP(ctx context.Context, actor access.Principal,
	password secretbox.Secret) (TOTPEnrolment, error) {
	proof, err := s.prove(ctx, actor, password)
	if err != nil {
		return TOTPEnrolment{}, err
	}
	secret := newTOTPSecret()
	sealed, err := s.box.Seal(secret, totpAD(actor.ID))
	if err != nil {
		return TOTPEnrolment{}, fmt.Errorf("seal the secret of an authenticator app: %w", err)
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := proof.hold(ctx, tx); err != nil {
			return err
		}
		if err := forgiveAttempt(ctx, tx, proof.attempt); err != nil {
			return err
		}
		now := s.clock.Now()
		ok, err := storeTOTP(ctx, tx, actor.ID, sealed, clock.Millis(now))
		if err != nil {
			return err
		}
		if !ok {
			return apperr.New(apperr.CodeTOTPActive, "There is an authenticator app already; remove it first")
		}
		return audit.Record(ctx, tx, now, totpEvent(actor, "totp.enrol", nil))
	})
	if err != nil {
		return TOTPEnrolment{}, err
	}
	return enrolment(secret, s.issuer, actor.Name), nil
}

// ConfirmTOTP activates the actor's authenticator app, once its first code shows that it has the secret, and returns
// recovery codes. It returns ErrWrongCode, totp_active if it is active, not_found if there is none, and rate_limited
// after many wrong codes.
func (s *Service) ConfirmTOTP(ctx context.Context, actor access.Principal,
	code secretbox.Secret) ([]secretbox.Secret, error) {
	if actor.Kind != access.KindUser {
		return nil, team.ErrActor
	}
	var shown []secretbox.Secret
	var refusal error
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		shown, refusal = nil, nil
		stored, ok, err := lockTOTP(ctx, tx, actor.ID)
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoTOTP()
		case stored.confirmedMillis != nil:
			return apperr.New(apperr.CodeTOTPActive, "The authenticator app is confirmed already")
		}
		if refusal, err = s.checkTOTP(ctx, tx, stored, actor.ID, parseCode(code.Reveal()).totp); err != nil ||
			refusal != nil {
			return err
		}
		now := s.clock.Now()
		if err := confirmTOTP(ctx, tx, actor.ID, clock.Millis(now)); err != nil {
			return err
		}
		for range recoveryCodes {
			code := newRecoveryCode()
			if err := insertRecoveryCode(ctx, tx, actor.ID, recoveryMAC(s.pepper, actor.ID, code)); err != nil {
				return err
			}
			shown = append(shown, showRecoveryCode(code))
		}
		return audit.Record(ctx, tx, now, totpEvent(actor, "totp.confirm", audit.State{"recovery_codes": recoveryCodes}))
	})
	if err = cmp.Or(err, wrongCode(refusal)); err != nil {
		return nil, err
	}
	return shown, nil
}

// RemoveTOTP removes the actor's authenticator app with its recovery codes. It requires the password and a code of the
// app or a recovery code, and returns ErrWrongPassword, ErrWrongCode, not_found if no app is active, and rate_limited
// and unavailable as Login does.
func (s *Service) RemoveTOTP(ctx context.Context, actor access.Principal, password, code secretbox.Secret) error {
	proof, err := s.prove(ctx, actor, password)
	if err != nil {
		return err
	}
	var refusal error
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := proof.hold(ctx, tx); err != nil {
			return err
		}
		var enrolled bool
		var err error
		if enrolled, refusal, err = s.checkCode(ctx, tx, actor, code); err != nil || refusal != nil {
			return err
		}
		if !enrolled {
			return errNoTOTP()
		}
		if err := forgiveAttempt(ctx, tx, proof.attempt); err != nil {
			return err
		}
		if _, err := deleteTOTP(ctx, tx, actor.ID); err != nil {
			return err
		}
		return audit.Record(ctx, tx, s.clock.Now(), totpEvent(actor, "totp.remove", nil))
	})
	return cmp.Or(err, wrongCode(refusal))
}

// ResetTOTP removes the authenticator app of a user who has lost it with all recovery codes, and ends their sessions.
// It returns ErrNoUser, and not_found where the user has no app.
func (s *Service) ResetTOTP(ctx context.Context, actor access.Principal, email string) error {
	address, ok := members.NormalizeEmail(email)
	if !ok {
		return ErrNoUser
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		a, ok, err := members.ReadAccount(ctx, tx, address)
		if err != nil {
			return err
		}
		if !ok {
			return ErrNoUser
		}
		if ok, err = deleteTOTP(ctx, tx, a.User.ID); err != nil {
			return err
		}
		if !ok {
			return errNoTOTP()
		}
		now := s.clock.Now()
		ended, err := endSessions(ctx, tx, a.User.ID, "", now)
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, now, audit.Event{
			Team: a.Team, Actor: actor, Action: "totp.reset", TargetType: "user", TargetID: a.User.ID,
			Details: audit.State{"sessions_ended": ended},
		})
	})
}

// checkCode checks a code, or its absence, of a user who has given the right password. enrolled is false where the user
// needs no code. refused is the response to a wrong code. Its count is part of the transaction, which must be committed
// all the same.
func (s *Service) checkCode(ctx context.Context, tx *sql.Tx, actor access.Principal,
	typed secretbox.Secret) (enrolled bool, refused, err error) {
	stored, ok, err := lockTOTP(ctx, tx, actor.ID)
	if err != nil || !ok || stored.confirmedMillis == nil {
		return false, nil, err
	}
	if typed == "" {
		return true, errCodeRequired(), nil
	}
	code := parseCode(typed.Reveal())
	if code.recovery == "" {
		refused, err = s.checkTOTP(ctx, tx, stored, actor.ID, code.totp)
		return true, refused, err
	}
	now := s.clock.Now()
	used, err := useRecoveryCode(ctx, tx, actor.ID, recoveryMAC(s.pepper, actor.ID, code.recovery), clock.Millis(now))
	if err != nil {
		return true, nil, err
	}
	if !used {
		return true, errCodeInvalid(), nil
	}
	left, err := countRecoveryCodes(ctx, tx, actor.ID)
	if err != nil {
		return true, nil, err
	}
	return true, nil, audit.Record(ctx, tx, now, totpEvent(actor, "totp.use_recovery_code", audit.State{"left": left}))
}

// checkTOTP checks a code of an app whose row the transaction holds, as checkCode does.
func (s *Service) checkTOTP(ctx context.Context, tx *sql.Tx, stored storedTOTP, user,
	code string) (refused, err error) {
	now := s.clock.Now()
	if wait := clock.FromMillis(stored.blockedMillis).Sub(now); wait > 0 {
		return errTooMany(wait), nil
	}
	secret, err := s.box.Open(stored.sealed, totpAD(user))
	if err != nil {
		return nil, fmt.Errorf("open the secret of an authenticator app: %w", err)
	}
	if step, ok := matchTOTP(secret, code, now, stored.lastStep); ok {
		used, err := useStep(ctx, tx, user, step)
		if err != nil || used {
			return nil, err
		}
	}
	var blocked int64
	if delay := codeDelay(stored.failures + 1); delay > 0 {
		blocked = clock.Millis(now.Add(delay))
	}
	return errCodeInvalid(), countWrongCode(ctx, tx, user, blocked)
}

// wrongCode is the refusal of a code in a request of a user who is signed in.
func wrongCode(refusal error) error {
	if apperr.Is(refusal, apperr.CodeTOTPInvalid) {
		return ErrWrongCode
	}
	return refusal
}

// proof is a password that was found right outside of the transaction that rests on it.
type proof struct {
	account members.Account
	attempt Attempt
}

// prove checks the actor's password.
func (s *Service) prove(ctx context.Context, actor access.Principal, password secretbox.Secret) (proof, error) {
	if actor.Kind != access.KindUser {
		return proof{}, team.ErrActor
	}
	a, known, hash, err := s.findAccount(ctx, actor.Name)
	if err != nil {
		return proof{}, err
	}
	if !known || a.User.ID != actor.ID {
		return proof{}, apperr.Unauthorized(errNoMember)
	}
	at, err := s.throttle.newAttempt(ctx, a.User.ID, a.User.Email, access.Client{IP: actor.IP})
	if err != nil {
		return proof{}, err
	}
	right, err := s.throttle.checkPassword(ctx, at, hash, password)
	if err != nil {
		return proof{}, err
	}
	if !right {
		return proof{}, ErrWrongPassword
	}
	return proof{account: a, attempt: at}, nil
}

// hold keeps the user's row as it is until the transaction ends, or returns ErrWrongPassword where the password was
// replaced meanwhile. Code that also locks the app's row locks this one first.
func (p proof) hold(ctx context.Context, tx *sql.Tx) error {
	unchanged, err := members.ReplacePasswordHash(ctx, tx, p.account.User.ID, p.account.PasswordHash,
		p.account.PasswordHash)
	if err != nil {
		return err
	}
	if !unchanged {
		return ErrWrongPassword
	}
	return nil
}

func totpEvent(actor access.Principal, action string, details audit.State) audit.Event {
	return audit.Event{Team: actor.Team, Actor: actor, Action: action, TargetType: "user", TargetID: actor.ID,
		Details: details}
}

func totpAD(user string) secretbox.AD {
	return secretbox.AD{Table: "user_totp", Column: "secret", RowID: user}
}
