package configs

import (
	"context"
	"fmt"
	"slices"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// RiskOverride is what a configuration states about the risk of actions.
type RiskOverride struct {
	// Action is a pattern of their names.
	Action    string         `json:"action"`
	Level     risk.Level     `json:"level,omitempty"`
	Operation risk.Operation `json:"operation,omitempty"`
	Flags     []risk.Flag    `json:"flags,omitempty"`
	Reason    string         `json:"reason,omitempty"`
	// Lower permits a level below that of an action. Without it the override only raises.
	Lower bool `json:"lower,omitempty"`
}

func (o *RiskOverride) equal(other *RiskOverride) bool {
	return o.Action == other.Action && o.Level == other.Level && o.Operation == other.Operation &&
		slices.Equal(o.Flags, other.Flags) && o.Reason == other.Reason && o.Lower == other.Lower
}

// Chooses reports whether the configuration leaves out any action; it may be nil.
func (c *Config) Chooses() bool { return c != nil && len(c.Include)+len(c.Exclude) > 0 }

// Offers reports whether the configuration leaves an action of its provider in the catalog.
func (c *Config) Offers(s actions.Subject) bool { return actions.IsChosen(c.Include, c.Exclude, s) }

// OverrideRisk returns the risk of an action with what the configuration states about it.
func (c *Config) OverrideRisk(name string, r risk.Risk) risk.Risk {
	for i := range c.Risk {
		if o := &c.Risk[i]; actions.MatchName(o.Action, name) {
			return r.Override(&risk.Override{Lower: o.Lower,
				Declared: risk.Declared{Level: o.Level, Operation: o.Operation, Flags: o.Flags, Reason: o.Reason}})
		}
	}
	return r
}

// Known returns the stored configurations of an environment, by their keys. The map is shared and must not be changed.
func (s *Service) Known(ctx context.Context, env id.Environment) (map[string]*Config, error) {
	known, err := s.snapshot(ctx, env)
	if err != nil {
		return nil, err
	}
	return known.byKey, nil
}

func checkPatterns(v *apperr.Violations, at string, f patch.Field[[]string]) {
	if len(f.Value) > MaxPatterns {
		v.Add(at, "max_items", fmt.Sprintf("must be at most %d patterns", MaxPatterns))
		return
	}
	for i, p := range f.Value {
		if problem := actions.CheckChoice(p); problem != "" {
			v.Add(fmt.Sprintf("%s[%d]", at, i), "pattern", problem)
		}
	}
}

const patternForm = "must be the name of an action, in which * stands for any characters"

func checkOverrides(v *apperr.Violations, list []RiskOverride) {
	if len(list) > MaxOverrides {
		v.Add("risk.overrides", "max_items", fmt.Sprintf("must be at most %d overrides", MaxOverrides))
		return
	}
	for i := range list {
		o, at := &list[i], fmt.Sprintf("risk.overrides[%d]", i)
		if !actions.ValidPattern(o.Action) {
			v.Add(at+".action", "pattern", patternForm)
		}
		stated := risk.Declared{Level: o.Level, Operation: o.Operation, Flags: o.Flags}
		switch contradiction := stated.Contradiction(); {
		case o.Level == "" && o.Operation == "" && len(o.Flags) == 0:
			v.Add(at, "required", "states nothing; give a level, an operation or flags")
		case o.Operation != "" && o.Level == "":
			v.Add(at+".level", "required", "is required with an operation")
		case contradiction != "":
			v.Add(at, "coherent", "contradicts itself: "+contradiction)
		}
		if o.Reason != "" {
			checkText(v, at+".reason", o.Reason, MaxReason)
		}
	}
}

// checkLowering returns forbidden if the actor changes how far an override reaches that may lower a risk, and has not
// the permission for it. The first override counts that matches, so that those before a lowering one limit its reach:
// others may be added there, and none removed.
func checkLowering(actor access.Principal, before, after *Config) error {
	if actor.Has(access.CatalogRisk) {
		return nil
	}
	var kept []RiskOverride
	if before != nil {
		kept = upToLastLowering(before.Risk)
	}
	for _, o := range upToLastLowering(after.Risk) {
		switch {
		case len(kept) > 0 && kept[0].equal(&o):
			kept = kept[1:]
		case o.Lower:
			return errLowering()
		}
	}
	// Without its lowering overrides, the rest of a list only raises.
	if slices.ContainsFunc(kept, func(o RiskOverride) bool { return !o.Lower }) &&
		slices.ContainsFunc(after.Risk, func(o RiskOverride) bool { return o.Lower }) {
		return errLowering()
	}
	return nil
}

// upToLastLowering returns the overrides up to the last one that may lower a risk.
func upToLastLowering(list []RiskOverride) []RiskOverride {
	for i := len(list); i > 0; i-- {
		if list[i-1].Lower {
			return list[:i]
		}
	}
	return nil
}

func errLowering() error {
	return apperr.New(apperr.CodeForbidden, "The user does not have the permission "+string(access.CatalogRisk)+
		", which overrides that lower a risk need, and changes of those before them")
}
