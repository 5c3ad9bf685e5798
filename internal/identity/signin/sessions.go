package signin

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/db"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

const (
	// SessionIdle is how long a session lasts that is not refreshed.
	SessionIdle = 14 * 24 * time.Hour
	// SessionLifetime is how long a session lasts however much it is used.
	SessionLifetime = 30 * 24 * time.Hour
	// maxSessions is how many sessions of one user are kept, ended ones included. Another sign-in removes the one that was
	// unused for longest, so that a script that signs in every minute fills nothing.
	maxSessions = 100
)

// Session is one sign-in of a user, and what it was refreshed to since.
type Session struct {
	ID string
	// IP and UserAgent are those of the client that got the last access token.
	IP        string
	UserAgent string
	// Times are in Unix milliseconds: of the sign-in, of the last proof of the password, and of the last access token.
	CreatedMillis int64
	AuthMillis    int64
	UsedMillis    int64
	expiresMillis int64
	// methods are those of Methods, with spaces between.
	methods string
}

// EndsMillis is when the session ends unless it is used before.
func (s Session) EndsMillis() int64 {
	return min(s.expiresMillis, s.UsedMillis+SessionIdle.Milliseconds())
}

// Methods returns how the user has shown who they are.
func (s Session) Methods() []string { return strings.Fields(s.methods) }

// How a session can begin: values of RFC 8176, section 2, and one of our own, which that RFC permits.
const (
	methodPassword = "pwd"
	methodOTP      = "otp"
	methodSSO      = "sso"
)

// Methods returns every value that a session's methods can have.
func Methods() []string { return []string{methodPassword, methodOTP, methodSSO} }

// sessionKey identifies a session, with the user's team.
type sessionKey struct {
	id   string
	user members.User
	team id.Team
}

var errSessionEnded = errors.New("the session is unknown or has ended")

// ListSessions returns a page of the actor's own sessions that have not ended. It reads page.Request.Fetch rows, which
// shows page.Cut whether more follow.
func (s *Service) ListSessions(ctx context.Context, actor access.Principal, r page.Request) ([]Session, error) {
	if actor.Kind != access.KindUser {
		return nil, team.ErrActor
	}
	return listSessions(ctx, s.db.Read(), actor.ID, s.clock.Now(), r)
}

// EndSession ends one of the actor's own sessions, its access tokens included, or returns not_found.
func (s *Service) EndSession(ctx context.Context, actor access.Principal, sessionID string) error {
	if actor.Kind != access.KindUser {
		return team.ErrActor
	}
	if !id.Is(id.PrefixSession, sessionID) {
		return apperr.NotFound("session")
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		now := s.clock.Now()
		_, ok, err := readSession(ctx, tx, actor.ID, sessionID, now)
		if err != nil {
			return err
		}
		if ok {
			ok, err = endSession(ctx, tx, sessionID, now)
		}
		if err != nil {
			return err
		}
		if !ok {
			return apperr.NotFound("session")
		}
		return audit.Record(ctx, tx, now, sessionEvent(actor, sessionID, "session.end", nil))
	})
}

// sessions keeps the sessions of users.
type sessions struct {
	db     *db.DB
	clock  clock.Clock
	pepper installation.Pepper
}

var errNothingToEnd = errors.New("neither a refresh token nor an access token that holds")

// Logout ends the session of a refresh token and that of an access token; either may be empty. It returns unauthorized
// where there is neither a refresh token, which may be one of a session that has ended, nor an access token that holds.
func (s *Service) Logout(ctx context.Context, c access.Client, refresh RefreshToken, bearer string) error {
	t, wellFormed := parseRefreshToken(refresh)
	var signedIn access.Principal
	if bearer != "" {
		var err error
		signedIn, err = s.Bearer(ctx, bearer)
		if err != nil && !apperr.Is(err, apperr.CodeUnauthorized) {
			return err
		}
	}
	if !wellFormed && signedIn.Session == "" {
		return apperr.Unauthorized(errNothingToEnd)
	}
	if signedIn.Session == "" { // check without the writer, so that made-up tokens cannot block it
		if _, ok, err := readFamily(ctx, s.db.Read(), t.familyMAC(s.pepper), s.clock.Now()); err != nil || !ok {
			return err
		}
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := s.sessions.endFamily(ctx, tx, c, refresh); err != nil || signedIn.Session == "" {
			return err
		}
		k := sessionKey{id: signedIn.Session, user: members.User{ID: signedIn.ID, Email: signedIn.Name}, team: signedIn.Team}
		return s.sessions.end(ctx, tx, c, k, "session.end", audit.Success)
	})
}

// endFamily ends the session of a refresh token, also of one that was used before: its holder was signed in.
func (s *sessions) endFamily(ctx context.Context, tx *sql.Tx, c access.Client, token RefreshToken) error {
	t, ok := parseRefreshToken(token)
	if !ok {
		return nil
	}
	f, ok, err := readFamily(ctx, tx, t.familyMAC(s.pepper), s.clock.Now())
	if err != nil || !ok {
		return err
	}
	if f.key.user, _, err = members.ReadUser(ctx, tx, f.key.user.ID); err != nil {
		return err
	}
	return s.end(ctx, tx, c, f.key, "session.end", audit.Success)
}

// end ends a session for a client that has no principal and shows a token of it, unless another request was faster.
func (s *sessions) end(ctx context.Context, tx *sql.Tx, c access.Client, k sessionKey, action string,
	outcome audit.Outcome) error {
	now := s.clock.Now()
	ok, err := endSession(ctx, tx, k.id, now)
	if err != nil || !ok {
		return err
	}
	e := sessionEvent(c.User(k.user.ID, k.user.Email, k.team), k.id, action, nil)
	e.Outcome = outcome
	return audit.Record(ctx, tx, now, e)
}

// startSession begins a session of a user who has just shown by those methods who they are.
func (s *sessions) startSession(ctx context.Context, tx *sql.Tx, c access.Client, k sessionKey,
	methods []string) (Session, RefreshToken, error) {
	now := s.clock.Now()
	ms := clock.Millis(now)
	v := Session{
		ID: id.New(id.PrefixSession), IP: c.IP, UserAgent: c.Agent(), CreatedMillis: ms, AuthMillis: ms, UsedMillis: ms,
		expiresMillis: clock.Millis(now.Add(SessionLifetime)), methods: strings.Join(methods, " "),
	}
	t := newRefreshToken()
	k.id = v.ID
	f := family{key: k, session: v, familyMAC: t.familyMAC(s.pepper), tokenMAC: t.tokenMAC(s.pepper)}
	if err := insertSession(ctx, tx, f, c.Origin()); err != nil {
		return Session{}, "", err
	}
	if err := sweepSessions(ctx, s.db, tx, k.user.ID, now); err != nil {
		return Session{}, "", err
	}
	err := audit.Record(ctx, tx, now, sessionEvent(c.User(k.user.ID, k.user.Email, k.team), v.ID, "session.create",
		audit.State{"methods": methods}))
	return v, t.encode(), err
}

func sessionEvent(actor access.Principal, sessionID, action string, details audit.State) audit.Event {
	return audit.Event{Team: actor.Team, Actor: actor, Action: action, TargetType: "session", TargetID: sessionID,
		Details: details}
}
