package e2e_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/reference"
)

// furniture is what one environment holds, so that every operation finds something to work on.
type furniture struct {
	environment  string
	connection   connection
	subscription subscription
	// event is dead-lettered and has two tries; there is a second event.
	event, secondEvent string
	key                string
	// grant is one of the key's.
	grant string
	// secret is one of the connection's two webhook secrets.
	secret string
	// enrolling is a connection whose enrolment holds a secret that awaits confirmation.
	enrolling connection
	// session is the owner's, and not the one that asks; spare is an environment that holds nothing.
	session, spare string
	// role is one of two that the team has made and nobody has; member is a user with one role, binding.
	role, member, binding string
	// invitation is one of two that are pending; invited is the token of the other.
	invitation, invited string
	// replay is one of two paused bulk replays.
	replay string
	// sso is an identity provider.
	sso string
	// totp is the secret of the owner's authenticator app, which waits for its first code.
	totp string
	sink *receiver
}

// furnish fills an environment, asking with the credentials given, through a connection of that id.
func (w *world) furnish(c credentials, environment, connectionID string) furniture {
	w.t.Helper()
	f := furniture{environment: environment, sink: newReceiver(w.t, status(http.StatusInternalServerError))}
	body := object{"provider": "github", "connection_id": connectionID, "webhook_secret": githubSecret}
	f.connection = w.connect(c, body)
	w.connect(c, object{"provider": "generic-hmac", "connection_id": connectionID + "-second", "tags": object{"a": "b"}})
	f.subscription = w.subscribeAs(c, f.sink.url, object{"retry_schedule_seconds": []float64{},
		"connection_id": connectionID})
	disabled := w.subscribeAs(c, f.sink.url, object{"retry_schedule_seconds": []float64{}, "enabled": false})
	f.event = w.fresh(f.connection.pathToken(), github(issueOpened))
	f.secondEvent = w.fresh(f.connection.pathToken(), github(`{"action":"closed"}`))
	read := func(uuid string) (e event) {
		w.call(c, http.MethodGet, "/webhook-events/"+uuid, nil).want(w, http.StatusOK).into(w, &e)
		return e
	}
	dead := func(uuid string, attempts int) {
		await.Condition(w.t, "a dead delivery", func() bool {
			return read(uuid).AttemptCount == attempts && read(uuid).Status == "dead_letter"
		})
	}
	dead(f.event, 1)
	dead(f.secondEvent, 1)
	w.call(c, http.MethodPost, "/webhook-events/"+f.event+"/replay", nil).want(w, http.StatusAccepted)
	dead(f.event, 2)
	var k struct {
		ID string `json:"id"`
	}
	for range 2 {
		w.call(w.user(""), http.MethodPost, "/api-keys", object{"name": "furniture", "environment_id": environment}).want(w,
			http.StatusCreated).into(w, &k)
	}
	f.key = k.ID
	for range 2 {
		w.call(w.user(""), http.MethodPost, "/api-keys/"+f.key+"/grants", object{"routes": []string{"events"}}).want(w,
			http.StatusCreated).into(w, &k)
	}
	f.grant = k.ID
	w.call(c, http.MethodPost, "/connections/github/"+connectionID+"/webhook-secrets",
		object{"secret": githubSecret + " next"}).
		want(w, http.StatusCreated).into(w, &k)
	f.secret = k.ID
	w.call(w.user(""), http.MethodPost, "/team/environments", object{"name": "spare-for-" + connectionID}).want(w,
		http.StatusCreated).into(w, &k)
	f.spare = k.ID
	w.login(w.email, w.password)
	var sessions []struct {
		ID      string `json:"id"`
		Current bool   `json:"current"`
	}
	w.call(w.user(""), http.MethodGet, "/team/sessions", nil).want(w, http.StatusOK).into(w, &sessions)
	require.False(w.t, sessions[0].Current)
	f.session = sessions[0].ID
	f.enrolling = w.connect(c, object{"provider": "notion", "connection_id": connectionID + "-enrolling"})
	w.call(c, http.MethodPost, "/connections/notion/"+f.enrolling.ConnectionID+"/webhook-enrolment", nil).want(w,
		http.StatusCreated)
	w.call(nobody, http.MethodPost, "/webhook/"+f.enrolling.pathToken(),
		raw(`{"verification_token":"secret_of_the_handshake"}`)).want(w, http.StatusOK)
	for range 2 {
		w.post(f.connection.pathToken(), githubAs("another secret", "issues", id.NewUUID(), issueOpened)).want(w,
			http.StatusUnauthorized)
	}
	w.rejections(c, "connection_id="+connectionID, 2)
	f.totp = w.enrolTOTP()
	f.sso = w.identityProvider(testkit.NewIdP(w.t, w.clk.Now), object{})
	w.staff(&f, connectionID)
	for range 2 { // what they replay is held, and slower than the clock
		f.replay = w.startReplay(c, object{"filter": object{"event_uuids": []string{f.event, f.secondEvent}}, "force": true,
			"to_subscription_id": disabled.ID, "rate_per_second": 1}).ID
		await.Condition(w.t, "the first step of a replay", func() bool { return w.replayJob(c, f.replay).Counts.Replayed == 1 })
		w.call(c, http.MethodPost, "/webhook-replays/"+f.replay+"/pause", nil).want(w, http.StatusOK)
	}
	return f
}

// staff adds the roles and the members that an environment's furniture names.
func (w *world) staff(f *furniture, name string) {
	w.t.Helper()
	for _, n := range []string{"first", "second"} {
		var made struct {
			ID string `json:"id"`
		}
		w.call(w.user(""), http.MethodPost, "/roles", object{"name": n + " of " + name,
			"permissions": []string{"webhook_events:read"}}).
			want(w, http.StatusCreated).into(w, &made)
		f.role = made.ID
		f.member = w.addMember(w.team(), n+"-"+name+"@example.test", "viewer")
	}
	var bindings []struct {
		ID string `json:"id"`
	}
	w.call(w.user(""), http.MethodGet, "/roles/bindings?principal_id="+f.member, nil).want(w, http.StatusOK).into(w,
		&bindings)
	require.Len(w.t, bindings, 1)
	f.binding = bindings[0].ID
	f.invited = w.invite("invited-"+name+"@example.test", object{"environment_id": f.environment}).Token
	f.invitation = w.invite("pending-"+name+"@example.test", object{"team": true}).ID
	// another link may be had
	w.change("UPDATE invitations SET sent_ms = sent_ms - 60000, created_ms = created_ms - 60000")
}

// sample is a request for one operation with everything right.
type sample struct {
	op httpapi.Operation
	// path holds the values of the path's parameters.
	path map[string]string
	// body is nil where the operation has none.
	body   object
	status int
	// cookie, where there is one, makes the refresh cookie that the operation takes.
	cookie func() string
}

// url is the sample's path with one parameter replaced; parameters are escaped unless they are the replacement.
func (s sample) url(replaced, by string) string {
	out := s.op.Path
	for name, value := range s.path {
		value = url.PathEscape(value)
		if name == replaced {
			value = by
		}
		out = strings.ReplaceAll(out, "{"+name+"}", value)
	}
	return out
}

// samples returns one sample for every operation, in an order in which each still finds what it works on. The test
// fails when an operation has none: whoever adds one says here how it is called, and all suites cover it.
func (w *world) samples(f furniture) []sample {
	w.t.Helper()
	connectionPath := map[string]string{"provider": "github", "connection_id": f.connection.ConnectionID}
	secretPath := map[string]string{"provider": "github", "connection_id": f.connection.ConnectionID,
		"secret_id": f.secret}
	enrollingPath := map[string]string{"provider": "notion", "connection_id": f.enrolling.ConnectionID}
	subscriptionPath := map[string]string{"id": f.subscription.ID}
	eventPath := map[string]string{"event_uuid": f.event}
	keyPath := map[string]string{"id": f.key}
	replayPath := map[string]string{"id": f.replay}
	mapping := []object{{"group": "engineering", "role": "developer", "environment_id": w.env}}
	ssoPath := map[string]string{"id": f.sso}
	rolePath, memberPath, bindingPath := map[string]string{"id": f.role}, map[string]string{"id": f.member},
		map[string]string{"id": f.binding}
	invitationPath := map[string]string{"id": f.invitation}
	sparePath := map[string]string{"id": f.spare}
	list := []struct {
		id     string
		path   map[string]string
		body   object
		status int
	}{
		{"setup-team", nil, object{"token": "sps_00000000000000000000000000", "team_name": "Sample",
			// development mode has set the installation up
			"email": "sample@example.test", "password": "staple battery horse"}, http.StatusGone},
		{"request-password-reset", nil, object{"email": w.email}, http.StatusConflict}, // there is no mail server
		{"complete-password-reset", nil, object{"token": "spr_00000000000000000000000000",
			"password": "staple battery horse"}, http.StatusUnauthorized},
		{"login", nil, object{"email": w.email, "password": w.password}, http.StatusOK},
		{"refresh-token", nil, nil, http.StatusOK},
		{"list-sessions", nil, nil, http.StatusOK},
		{"end-session", map[string]string{"id": f.session}, nil, http.StatusNoContent},
		{"get-me", nil, nil, http.StatusOK},
		{"confirm-totp", nil, object{"code": w.totp(f.totp, 0)}, http.StatusOK},
		{"get-totp", nil, nil, http.StatusOK},
		{"remove-totp", nil, object{"password": w.password, "code": w.totp(f.totp, 1)}, http.StatusNoContent},
		{"enrol-totp", nil, object{"password": w.password}, http.StatusCreated},
		{"get-team", nil, nil, http.StatusOK},
		{"update-team", nil, object{"name": "Sample"}, http.StatusOK},
		{"list-permissions", nil, nil, http.StatusOK},
		{"list-roles", nil, nil, http.StatusOK},
		{"create-role", nil, object{"name": "sample-" + f.role, "description": "A sample.",
			"permissions": []string{"webhook_events:read"}}, http.StatusCreated},
		{"get-role", rolePath, nil, http.StatusOK},
		{"update-role", rolePath, object{"name": "renamed-" + f.role, "description": "",
			"permissions": []string{"audit:read"}}, http.StatusOK},
		{"delete-role", rolePath, nil, http.StatusNoContent},
		{"list-role-bindings", nil, nil, http.StatusOK},
		{"create-role-binding", nil, object{"principal": object{"type": "user", "id": f.member}, "role": "developer",
			"scope": object{"environment_id": f.environment}, "expires_at": w.clk.Now().Add(24 * time.Hour)},
			http.StatusCreated},
		{"get-role-binding", bindingPath, nil, http.StatusOK},
		{"update-role-binding", bindingPath, object{"expires_at": w.clk.Now().Add(48 * time.Hour)}, http.StatusOK},
		{"delete-role-binding", bindingPath, nil, http.StatusNoContent},
		{"list-members", nil, nil, http.StatusOK},
		{"get-member", memberPath, nil, http.StatusOK},
		{"update-member", memberPath, object{"disabled": true}, http.StatusOK},
		{"remove-member", memberPath, nil, http.StatusNoContent},
		{"create-invitation", nil, object{"email": "sample-" + f.connection.ConnectionID + "@example.test", "role": "viewer",
			"scope": object{"environment_id": f.environment}, "expires_at": w.clk.Now().Add(24 * time.Hour)},
			http.StatusCreated},
		{"list-invitations", nil, nil, http.StatusOK},
		{"get-invitation", invitationPath, nil, http.StatusOK},
		{"resend-invitation", invitationPath, nil, http.StatusOK},
		{"revoke-invitation", invitationPath, nil, http.StatusNoContent},
		{"accept-invitation", map[string]string{"token": f.invited}, object{"password": "staple battery horse"},
			http.StatusCreated},
		{"create-environment", nil, object{"name": "sample-" + strings.ToLower(f.environment[4:]), "type": "live"},
			http.StatusCreated},
		{"list-environments", nil, nil, http.StatusOK},
		{"get-environment", sparePath, nil, http.StatusOK},
		{"update-environment", sparePath, object{"name": "renamed-" + strings.ToLower(f.environment[4:])}, http.StatusOK},
		{"delete-environment", sparePath, nil, http.StatusNoContent},
		{"create-sso-provider", nil, object{"name": "Sample", "issuer": "https://login.example.test", "client_id": "sample",
			"client_secret": "0123456789abcdef", "allowed_domains": []string{"example.test"}, "just_in_time": true,
			"link_existing": false, "enabled": true, "groups_claim": "groups", "scopes": []string{"openid"},
			"role_mappings": mapping}, http.StatusCreated},
		{"list-sso-providers", nil, nil, http.StatusOK},
		{"get-sso-provider", ssoPath, nil, http.StatusOK},
		{"update-sso-provider", ssoPath, object{"name": "Changed", "scopes": []string{"openid"}, "role_mappings": mapping,
			"allowed_domains": []string{"example.test"}}, http.StatusOK},
		{"test-sso-provider", ssoPath, nil, http.StatusOK},
		{"start-sso", ssoPath, nil, http.StatusSeeOther},
		{"delete-sso-provider", ssoPath, nil, http.StatusNoContent},
		{"list-audit-events", nil, nil, http.StatusOK},
		{"export-audit-events", nil, nil, http.StatusOK},
		{"create-api-key", nil, object{"name": "sample", "environment_id": f.environment,
			"grants": []object{{"effect": "allow", "routes": []string{"events"}, "connections": []string{"*"},
				"not_after": "2099-01-31T00:00:00.000Z"}}, "source_cidrs": []string{"127.0.0.0/8"},
			"rate_limit": object{"per_second": 10, "burst": 50}}, http.StatusCreated},
		{"list-api-keys", nil, nil, http.StatusOK},
		{"get-api-key", keyPath, nil, http.StatusOK},
		{"update-api-key", keyPath, object{"name": "sample", "expires_at": "2099-01-31T00:00:00.000Z",
			"source_cidrs": []string{"127.0.0.0/8"}}, http.StatusOK},
		{"get-api-key-usage", keyPath, nil, http.StatusOK},
		{"verify-api-key", nil, object{"key": w.key}, http.StatusOK},
		{"rotate-api-key", keyPath, object{"overlap_seconds": 0}, http.StatusOK},
		{"disable-api-key", keyPath, nil, http.StatusOK},
		{"enable-api-key", keyPath, nil, http.StatusOK},
		{"list-api-key-grants", keyPath, nil, http.StatusOK},
		{"create-api-key-grant", keyPath, object{"effect": "allow", "routes": []string{"events"},
			"connections": []string{"acme"}}, http.StatusCreated},
		{"delete-api-key-grant", map[string]string{"id": f.key, "grant_id": f.grant}, nil, http.StatusNoContent},
		{"revoke-api-key", keyPath, nil, http.StatusOK},
		{"delete-api-key", keyPath, nil, http.StatusNoContent},

		{"publish-webhook-event", nil, object{"event_type": "invoice.paid", "data": object{"n": 1},
			"idempotency_key": "sample", "connection_id": f.connection.ConnectionID, "provider_config_key": "github"},
			http.StatusCreated},
		{"replay-webhook-event", eventPath, object{"subscription_ids": []string{f.subscription.ID}}, http.StatusAccepted},
		{"create-webhook-replay", nil, object{"filter": object{"event_uuids": []string{f.event}},
			"to_subscription_id": f.subscription.ID, "rate_per_second": 10, "force": false, "dry_run": true}, http.StatusOK},
		{"list-webhook-replays", nil, nil, http.StatusOK},
		{"get-webhook-replay", replayPath, nil, http.StatusOK},
		{"pause-webhook-replay", replayPath, nil, http.StatusOK},
		{"resume-webhook-replay", replayPath, nil, http.StatusOK},
		{"cancel-webhook-replay", replayPath, nil, http.StatusOK},
		{"list-webhook-events", nil, nil, http.StatusOK},
		{"get-webhook-event", eventPath, nil, http.StatusOK},
		{"list-webhook-event-attempts", eventPath, nil, http.StatusOK},
		{"download-webhook-event-payload", eventPath, nil, http.StatusOK},
		{"explain-webhook-event", eventPath, nil, http.StatusOK},
		{"expunge-webhook-event-payload", eventPath, nil, http.StatusNoContent},
		{"stream-webhook-events", nil, nil, http.StatusOK},
		{"create-webhook-event-stream-ticket", nil, nil, http.StatusCreated},
		{"list-webhook-rejections", nil, nil, http.StatusOK},

		{"create-webhook-subscription", nil, object{"event_types": []string{"*"}, "forward_url": f.sink.url, "enabled": false,
			"provider_config_key": "github", "connection_id": f.connection.ConnectionID}, http.StatusCreated},
		{"list-webhook-subscriptions", nil, nil, http.StatusOK},
		{"get-webhook-subscription", subscriptionPath, nil, http.StatusOK},
		{"get-webhook-subscription-stats", subscriptionPath, nil, http.StatusOK},
		{"test-webhook-subscription", subscriptionPath, object{"event_type": "a.b", "body": object{"n": 1}, "dry_run": true},
			http.StatusOK},
		{"update-webhook-subscription", subscriptionPath, object{"description": "sample"}, http.StatusOK},
		{"delete-webhook-subscription", subscriptionPath, nil, http.StatusNoContent},

		{"create-connection", nil, object{"provider": "github", "on_conflict": "update", "connection_id": "sample-" +
			strings.ToLower(f.environment[4:])}, http.StatusCreated},
		{"list-connections", nil, nil, http.StatusOK},
		{"get-connection", connectionPath, nil, http.StatusOK},
		{"update-connection", connectionPath, object{"tags": object{"sample": "yes"}}, http.StatusOK},
		{"list-webhook-secrets", connectionPath, nil, http.StatusOK},
		{"create-webhook-secret", connectionPath, object{"secret": "0123456789abcdef", "label": "sample"},
			http.StatusCreated},
		{"delete-webhook-secret", secretPath, nil, http.StatusNoContent},
		{"get-webhook-enrolment", enrollingPath, nil, http.StatusOK},
		{"confirm-webhook-enrolment", enrollingPath, nil, http.StatusOK},
		{"open-webhook-enrolment", enrollingPath, nil, http.StatusCreated},
		{"delete-webhook-enrolment", enrollingPath, nil, http.StatusNoContent},
		{"operate-connection", connectionPath, object{"tags": object{"sample": nil}}, http.StatusOK},
		{"operate-connection", connectionPath, object{"operation": "disable"}, http.StatusOK},
		{"delete-connection", connectionPath, nil, http.StatusNoContent},
		{"change-password", nil, object{"current_password": w.password, "new_password": "staple battery horse"},
			http.StatusNoContent},
		{"logout", nil, nil, http.StatusNoContent}, // the last one, for it ends the session of the token
	}
	byID := map[string]httpapi.Operation{}
	for _, op := range reference.API().Operations() {
		byID[op.ID] = op
	}
	var out []sample
	covered := map[string]bool{}
	for _, l := range list {
		require.Contains(w.t, byID, l.id, "a sample for an operation that is no more")
		covered[l.id] = true
		s := sample{op: byID[l.id], path: l.path, body: l.body, status: l.status}
		if l.id == "refresh-token" {
			s.cookie = func() string { return w.signIn(w.email, w.password).cookie(w) }
		}
		out = append(out, s)
	}
	require.ElementsMatch(w.t, slices.Collect(maps.Keys(byID)), slices.Collect(maps.Keys(covered)),
		"every operation needs a sample")
	return out
}

// try makes the sample's request, with another body when one is given.
func (w *world) try(c credentials, s sample, body ...any) answer {
	w.t.Helper()
	var content any
	if s.body != nil {
		content = s.body
	}
	if len(body) > 0 {
		content = body[0]
	}
	return w.call(func(h http.Header) {
		c(h)
		if s.cookie != nil {
			h.Set("Cookie", s.cookie())
		}
	}, s.op.Method, s.url("", ""), content)
}

// The samples are right: what the suites that break them one thing at a time find is due to that one thing. Each answer
// is held to the document on the way, and says how the caller's rate limit stands.
func TestSamplesSucceed(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		f := w.furnish(w.dev(), w.env, "acme")
		for _, s := range w.samples(f) {
			a := w.try(w.user(w.env), s).want(w, s.status)
			for _, name := range rateHeaders() {
				require.Len(w.t, a.header.Values(name), 1, "%s %s: %s", a.method, a.path, name)
			}
		}
	}, func(c *config.Config) {
		c.RateLimitKeyPerSecond, c.RateLimitUserPerSecond, c.RateLimitAddressPerSecond = 100_000, 100_000, 100_000
		c.RateLimitKeyBurst, c.RateLimitUserBurst, c.RateLimitAddressBurst = 1_000_000, 1_000_000, 1_000_000
	})
}
