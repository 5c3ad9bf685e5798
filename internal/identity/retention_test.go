package identity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

const testDay = 24 * time.Hour

// keeps requires an environment's lifetimes, in days.
func (f fixture) keeps(t *testing.T, env id.Environment, payload, event int) {
	t.Helper()
	p, e, err := f.Lifetimes(t.Context(), env)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Duration(payload) * testDay, time.Duration(event) * testDay},
		[]time.Duration{p, e})
}

func days(payload, event *int64) EnvironmentChange {
	return EnvironmentChange{RetentionChange: RetentionChange{PayloadSet: true, EventSet: true,
		Retention: Retention{payload, event}}}
}

// What an environment sets holds at once, with its trail; what it does not set is as the service is configured; and a
// payload never outlives its event.
func TestRetention(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.Ask(holding{})
		actor, p := f.owner(t)
		env, other := p.Environments[0].ID, p.Environments[1].ID
		f.keeps(t, env, 30, 90)
		before := len(f.trail(t))
		update := func(c EnvironmentChange) (Environment, error) { return f.UpdateEnvironment(t.Context(), actor, env, c) }
		for range 2 {
			e, err := update(days(new(int64(7)), new(int64(14))))
			require.NoError(t, err)
			require.Equal(t, Retention{new(int64(7)), new(int64(14))}, e.Retention)
		}
		f.keeps(t, env, 7, 14)
		f.keeps(t, other, 30, 90)
		list, err := f.Environments(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, new(int64(7)), list[0].PayloadDays)

		_, err = update(EnvironmentChange{RetentionChange: RetentionChange{PayloadSet: true}})
		require.NoError(t, err)
		f.keeps(t, env, 14, 14)
		_, err = update(EnvironmentChange{Name: new("kept-short")})
		require.NoError(t, err)
		f.keeps(t, env, 14, 14)
		_, err = update(days(nil, nil))
		require.NoError(t, err)
		f.keeps(t, env, 30, 90)
		require.Equal(t, []string{"environment.update", "environment.update", "environment.update", "environment.update"},
			f.actions(t)[before:])
		require.JSONEq(t, `{"payload_retention_days":{"before":null,"after":7},"event_retention_days":{"before":null,"after":14}}`, f.trail(t)[before].changes)
		require.JSONEq(t, `{"event_retention_days":{"before":14,"after":null}}`, f.trail(t)[before+3].changes)

		made, err := f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: "brief", Type: Test,
			Retention: Retention{EventDays: new(int64(1))}})
		require.NoError(t, err)
		f.keeps(t, made.ID, 1, 1)
		require.NoError(t, f.DeleteEnvironment(t.Context(), actor, made.ID))
		f.keeps(t, made.ID, 1, 1)
		_, _, err = f.Lifetimes(t.Context(), id.Environment(id.New(id.PrefixEnvironment)))
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
	})
}

// Settings that cannot hold are refused, alone and against what the environment or the service has already.
func TestRetentionRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		env := p.Environments[0].ID
		_, err := f.UpdateEnvironment(t.Context(), actor, env, days(new(int64(20)), new(int64(40))))
		require.NoError(t, err)
		only := func(payload bool, n int64) EnvironmentChange {
			if payload {
				return EnvironmentChange{RetentionChange: RetentionChange{PayloadSet: true, Retention: Retention{PayloadDays: &n}}}
			}
			return EnvironmentChange{RetentionChange: RetentionChange{EventSet: true, Retention: Retention{EventDays: &n}}}
		}
		for name, c := range map[string]struct {
			change EnvironmentChange
			faults []string
		}{
			"none at all": {days(new(int64(0)), new(int64(0))), []string{"body.payload_retention_days range",
				"body.event_retention_days range"}},
			"too long": {days(new(int64(366)), new(int64(3651))), []string{"body.payload_retention_days range",
				"body.event_retention_days range"}},
			"payload over event":       {days(new(int64(8)), new(int64(7))), []string{"body.payload_retention_days order"}},
			"payload over the stored":  {only(true, 41), []string{"body.payload_retention_days order"}},
			"event under the stored":   {only(false, 19), []string{"body.payload_retention_days order"}},
			"payload over the default": {days(new(int64(91)), nil), []string{"body.payload_retention_days order"}},
			"together with a bad name": {EnvironmentChange{Name: new("A"), RetentionChange: only(true, 41).RetentionChange},
				[]string{"name pattern", "body.payload_retention_days order"}},
			"negative": {only(true, -1), []string{"body.payload_retention_days range"}},
		} {
			_, err := f.UpdateEnvironment(t.Context(), actor, env, c.change)
			var e *apperr.Error
			require.ErrorAs(t, err, &e, name)
			var got []string
			for _, d := range e.Details {
				got = append(got, d.Location+" "+d.Rule)
			}
			require.Equal(t, c.faults, got, name)
		}
		f.keeps(t, env, 20, 40)
		_, err = f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: "a", Type: Test,
			Retention: Retention{PayloadDays: new(int64(366))}})
		require.True(t, apperr.Is(err, apperr.CodeValidation))
	})
}

// Another process goes by a changed setting as soon as it looks, and by what it has read meanwhile only until then.
func TestRetentionOfOtherProcesses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		env := p.Environments[0].ID
		other := fixture{Service: f.another(t)}
		other.keeps(t, env, 30, 90)
		require.NoError(t, other.RefreshSettings(t.Context()))
		_, err := f.UpdateEnvironment(t.Context(), actor, env, days(new(int64(3)), new(int64(5))))
		require.NoError(t, err)
		f.keeps(t, env, 3, 5)
		other.keeps(t, env, 30, 90)
		require.NoError(t, other.RefreshSettings(t.Context()))
		other.keeps(t, env, 3, 5)
	})
}

// The configuration's days hold where an environment sets nothing, also against an environment's own payload days.
func TestConfiguredRetention(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		env := p.Environments[0].ID
		_, err := f.UpdateEnvironment(t.Context(), actor, env, days(new(int64(60)), nil))
		require.NoError(t, err)
		s, err := New(f.store.DB, nil, clock.System(), Options{Issuer: testIssuer, PayloadRetentionDays: 2,
			EventRetentionDays: 50})
		require.NoError(t, err)
		g := fixture{Service: s}
		g.keeps(t, env, 50, 50)
		g.keeps(t, p.Environments[1].ID, 2, 50)
	})
}

// A value that was read before a change is not kept after it.
func TestRetentionCacheForgetsOldReads(t *testing.T) {
	t.Parallel()
	var c retentionCache
	_, generation, ok := c.get("env_a")
	require.False(t, ok)
	c.drop()
	c.put("env_a", Retention{}, generation)
	_, generation, ok = c.get("env_a")
	require.False(t, ok)
	c.put("env_a", Retention{PayloadDays: new(int64(1))}, generation)
	r, _, ok := c.get("env_a")
	require.True(t, ok)
	require.EqualValues(t, 1, *r.PayloadDays)
	c.observe(0)
	_, _, ok = c.get("env_a")
	require.True(t, ok, "nothing has changed")
	c.observe(1)
	_, _, ok = c.get("env_a")
	require.False(t, ok)
}
