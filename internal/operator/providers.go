package operator

import (
	"log/slog"

	"sallyport/internal/app"
	"sallyport/internal/platform/config"
	"sallyport/internal/providers/registry"
)

// ProviderSummary holds the fields of a provider that commands show.
type ProviderSummary = registry.Summary

// ProviderMode is one of a provider's ways to authenticate.
type ProviderMode = registry.ModeSummary

// ProviderProblem is one error of a definition file.
type ProviderProblem = registry.Problem

// Providers describes every provider that a server with this configuration has, in the order of slugs.
func Providers(cfg *config.Config) ([]ProviderSummary, error) {
	live, err := app.LoadProviders(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	out := []ProviderSummary{}
	for _, p := range live.Registry().List() {
		out = append(out, p.Summary())
	}
	return out, nil
}
