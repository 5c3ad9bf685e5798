package team_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

const testDay = 24 * time.Hour

// keeps requires an environment's lifetimes, in days.
func keeps(t *testing.T, f identitytest.World, env id.Environment, payload, event int) {
	t.Helper()
	p, e, err := f.Team.Lifetimes(t.Context(), env)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Duration(payload) * testDay, time.Duration(event) * testDay},
		[]time.Duration{p, e})
}

func days(payload, event *int64) team.EnvironmentChange {
	return team.EnvironmentChange{RetentionChange: team.RetentionChange{PayloadSet: true, EventSet: true,
		Retention: team.Retention{payload, event}}}
}

// An environment's setting applies immediately, with its trail. A missing one applies as the service is configured. A
// payload never outlives its event.
func TestRetention(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		env, other := p.Environments[0].ID, p.Environments[1].ID
		keeps(t, f, env, 30, 90)
		before := len(f.Trail(t))
		update := func(c team.EnvironmentChange) (team.Environment, error) {
			return f.Team.UpdateEnvironment(t.Context(), actor, env, c)
		}
		for range 2 {
			e, err := update(days(new(int64(7)), new(int64(14))))
			require.NoError(t, err)
			require.Equal(t, team.Retention{new(int64(7)), new(int64(14))}, e.Retention)
		}
		keeps(t, f, env, 7, 14)
		keeps(t, f, other, 30, 90)
		list, err := f.Team.Environments(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, new(int64(7)), list[0].PayloadDays)

		_, err = update(team.EnvironmentChange{RetentionChange: team.RetentionChange{PayloadSet: true}})
		require.NoError(t, err)
		keeps(t, f, env, 14, 14)
		_, err = update(team.EnvironmentChange{Name: new("kept-short")})
		require.NoError(t, err)
		keeps(t, f, env, 14, 14)
		_, err = update(days(nil, nil))
		require.NoError(t, err)
		keeps(t, f, env, 30, 90)
		require.Equal(t, []string{"environment.update", "environment.update", "environment.update", "environment.update"},
			f.Actions(t)[before:])
		require.JSONEq(t, `{"payload_retention_days":{"before":null,"after":7},"event_retention_days":{"before":null,`+
			`"after":14}}`, f.Trail(t)[before].Changes)
		require.JSONEq(t, `{"event_retention_days":{"before":14,"after":null}}`, f.Trail(t)[before+3].Changes)

		made, err := f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: "brief", Type: team.Test,
			Retention: team.Retention{EventDays: new(int64(1))}})
		require.NoError(t, err)
		keeps(t, f, made.ID, 1, 1)
		require.NoError(t, f.Team.DeleteEnvironment(t.Context(), actor, made.ID))
		keeps(t, f, made.ID, 1, 1)
		_, _, err = f.Team.Lifetimes(t.Context(), id.Environment(id.New(id.PrefixEnvironment)))
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
	})
}

// Settings that cannot hold are refused, alone and against what the environment or the service has already.
func TestRetentionRefusals(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		env := p.Environments[0].ID
		_, err := f.Team.UpdateEnvironment(t.Context(), actor, env, days(new(int64(20)), new(int64(40))))
		require.NoError(t, err)
		only := func(payload bool, n int64) team.EnvironmentChange {
			if payload {
				return team.EnvironmentChange{RetentionChange: team.RetentionChange{PayloadSet: true,
					Retention: team.Retention{PayloadDays: &n}}}
			}
			return team.EnvironmentChange{RetentionChange: team.RetentionChange{EventSet: true,
				Retention: team.Retention{EventDays: &n}}}
		}
		for name, c := range map[string]struct {
			change     team.EnvironmentChange
			violations []string
		}{
			"none at all": {days(new(int64(0)), new(int64(0))), []string{"payload_retention_days range",
				"event_retention_days range"}},
			"too long": {days(new(int64(366)), new(int64(3651))), []string{"payload_retention_days range",
				"event_retention_days range"}},
			"payload over event":       {days(new(int64(8)), new(int64(7))), []string{"payload_retention_days order"}},
			"payload over the stored":  {only(true, 41), []string{"payload_retention_days order"}},
			"event under the stored":   {only(false, 19), []string{"payload_retention_days order"}},
			"payload over the default": {days(new(int64(91)), nil), []string{"payload_retention_days order"}},
			"together with a bad name": {team.EnvironmentChange{Name: new("A"), RetentionChange: only(true, 41).RetentionChange},
				[]string{"name pattern", "payload_retention_days order"}},
			"negative": {only(true, -1), []string{"payload_retention_days range"}},
		} {
			_, err := f.Team.UpdateEnvironment(t.Context(), actor, env, c.change)
			var e *apperr.Error
			require.ErrorAs(t, err, &e, name)
			var got []string
			for _, d := range e.Details {
				got = append(got, d.Location+" "+d.Rule)
			}
			require.Equal(t, c.violations, got, name)
		}
		keeps(t, f, env, 20, 40)
		_, err = f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: "a", Type: team.Test,
			Retention: team.Retention{PayloadDays: new(int64(366))}})
		require.True(t, apperr.Is(err, apperr.CodeValidation))
	})
}

// Another process applies a changed setting as soon as it reads it, and uses its last reading only until then.
func TestRetentionOfOtherProcesses(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		env := p.Environments[0].ID
		other := f.Another(t)
		keeps(t, other, env, 30, 90)
		require.NoError(t, other.Team.Refresh(t.Context()))
		_, err := f.Team.UpdateEnvironment(t.Context(), actor, env, days(new(int64(3)), new(int64(5))))
		require.NoError(t, err)
		keeps(t, f, env, 3, 5)
		keeps(t, other, env, 30, 90)
		require.NoError(t, other.Team.Refresh(t.Context()))
		keeps(t, other, env, 3, 5)
	})
}

// The configuration's days hold where an environment sets nothing, also against an environment's own payload days.
func TestConfiguredRetention(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		env := p.Environments[0].ID
		_, err := f.Team.UpdateEnvironment(t.Context(), actor, env, days(new(int64(60)), nil))
		require.NoError(t, err)
		g := f.Another(t)
		g.Team = team.New(team.Config{DB: f.Store.DB, Clock: f.Clock, PayloadRetentionDays: 2, EventRetentionDays: 50})
		keeps(t, g, env, 50, 50)
		keeps(t, g, p.Environments[1].ID, 2, 50)
	})
}
