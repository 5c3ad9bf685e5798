package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/risk"
)

// A developer states anything about a risk and lowers none: neither by an override, nor by a change of those that limit
// how far the override of an administrator reaches.
func TestLoweringNeedsItsPermission(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		admin, developer := w.a, w.a
		admin.Rights, developer.Rights = access.Admin.Rights(), access.Developer.Rights()
		critical := configs.RiskOverride{Action: "create_thing", Level: risk.Critical}
		lower := configs.RiskOverride{Action: "*", Level: risk.Low, Lower: true}
		raise := configs.RiskOverride{Action: "delete_*", Level: risk.Critical}
		set := func(actor access.Principal, list ...configs.RiskOverride) error {
			_, err := w.svc.Update(t.Context(), actor, "github", configs.Change{Risk: patch.To(list)})
			return err
		}
		_, err := w.svc.Create(t.Context(), developer, configs.NewConfig{Provider: "github",
			Change: configs.Change{Risk: patch.To([]configs.RiskOverride{lower})}})
		require.True(t, apperr.Is(err, apperr.CodeForbidden))
		_, err = w.svc.Create(t.Context(), developer, configs.NewConfig{Provider: "github",
			Change: configs.Change{Risk: patch.To([]configs.RiskOverride{critical})}})
		require.NoError(t, err)
		require.True(t, apperr.Is(set(developer, critical, lower), apperr.CodeForbidden))
		require.NoError(t, set(admin, critical, lower))
		for _, list := range [][]configs.RiskOverride{{lower}, {lower, critical}, {critical, lower, lower},
			{critical, {Action: "list_*", Level: risk.Low, Lower: true}}} {
			require.True(t, apperr.Is(set(developer, list...), apperr.CodeForbidden), "%v", list)
		}
		require.NoError(t, set(developer, critical, raise, lower, raise))
		require.NoError(t, set(developer, critical, raise))
		require.NoError(t, set(admin))
	})
}

// An override raises, and lowers only if it says so; flags raise by themselves; the first that matches counts.
func TestOverrideRisk(t *testing.T) {
	t.Parallel()
	medium := risk.Risk{Level: risk.Medium, Operation: risk.Create, Source: risk.FromWords, Confidence: 0.6,
		Reasons: []string{"POST makes a change."}}
	for _, c := range []struct {
		override configs.RiskOverride
		level    risk.Level
		source   risk.Source
	}{
		{configs.RiskOverride{Action: "*", Level: risk.Low}, risk.Medium, risk.FromWords},
		{configs.RiskOverride{Action: "*", Level: risk.Low, Lower: true}, risk.Low, risk.FromOperator},
		{configs.RiskOverride{Action: "*", Level: risk.Critical}, risk.Critical, risk.FromOperator},
		{configs.RiskOverride{Action: "*", Flags: []risk.Flag{risk.MovesMoney}}, risk.Critical, risk.FromOperator},
		{configs.RiskOverride{Action: "other", Level: risk.Critical}, risk.Medium, risk.FromWords},
	} {
		config := configs.Config{Risk: []configs.RiskOverride{c.override, {Action: "*", Level: risk.High}}}
		if c.override.Action != "other" {
			config.Risk = append(config.Risk[:1], config.Risk[1:]...)
		} else {
			config.Risk = config.Risk[:1]
		}
		got := config.OverrideRisk("create_thing", medium)
		require.Equal(t, c.level, got.Level, "%+v", c.override)
		require.Equal(t, c.source, got.Source, "%+v", c.override)
		require.Subset(t, got.Flags, c.override.Flags)
	}
}

// Errors of overrides and patterns are at their places.
func TestBadOverrides(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		_, err := w.svc.Create(t.Context(), w.a, configs.NewConfig{Provider: "github", Change: configs.Change{
			Include: patch.To([]string{"ok_*", "Not"}), Risk: patch.To([]configs.RiskOverride{{Action: "a"},
				{Action: "b", Operation: risk.Read}, {Action: "../", Level: risk.High},
				{Action: "c", Level: risk.Low, Flags: []risk.Flag{risk.Destructive}, Lower: true}})}})
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		var places []string
		for _, d := range e.Details {
			places = append(places, d.Location)
		}
		require.Equal(t, []string{"actions.include[1]", "risk.overrides[0]", "risk.overrides[1].level",
			"risk.overrides[2].action", "risk.overrides[3]"}, places)
	})
}
