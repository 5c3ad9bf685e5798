package archtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func sampleTable() map[string][]string {
	return map[string][]string{
		"identity/people":      {},
		"webhooks/billing":     {"webhooks/orders", "identity/people"},
		"webhooks/orders":      {},
		"webhooks/reports":     {},
		"webhooks/billinghttp": {"webhooks/reports"},
	}
}

// Each forbidden import is found and named, so that the check of the tree cannot pass by looking away.
func TestImportsFindsEachForbiddenImport(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pkg  Package
		want string
	}{
		"platform imports a capability": {
			Package{ImportPath: "sallyport/internal/platform/db", Imports: []string{"sallyport/internal/webhooks/orders"}},
			"sallyport/internal/platform/db imports sallyport/internal/webhooks/orders: platform knows no capability",
		},
		"a platform test imports a capability": {
			Package{ImportPath: "sallyport/internal/platform/db", XTestImports: []string{"sallyport/internal/webhooks/orders"}},
			"sallyport/internal/platform/db imports sallyport/internal/webhooks/orders: platform knows no capability",
		},
		"a capability imports against the table": {
			Package{ImportPath: "sallyport/internal/webhooks/orders", Imports: []string{"sallyport/internal/webhooks/billing"}},
			"sallyport/internal/webhooks/orders imports sallyport/internal/webhooks/billing: not in the row of webhooks/orders",
		},
		"a folder below a capability imports against the table": {
			Package{ImportPath: "sallyport/internal/webhooks/orders/match",
				Imports: []string{"sallyport/internal/webhooks/billing"}},
			"sallyport/internal/webhooks/orders/match imports sallyport/internal/webhooks/billing: not in the row of " +
				"webhooks/orders",
		},
		"a capability imports its own HTTP package": {
			Package{ImportPath: "sallyport/internal/webhooks/orders",
				Imports: []string{"sallyport/internal/webhooks/orders/ordershttp"}},
			"sallyport/internal/webhooks/orders imports sallyport/internal/webhooks/orders/ordershttp: only internal/app " +
				"mounts HTTP packages",
		},
		"an HTTP package imports another HTTP package": {
			Package{ImportPath: "sallyport/internal/webhooks/billing/billinghttp",
				Imports: []string{"sallyport/internal/webhooks/orders/ordershttp"}},
			"sallyport/internal/webhooks/billing/billinghttp imports sallyport/internal/webhooks/orders/ordershttp: only " +
				"internal/app mounts HTTP packages",
		},
		"an HTTP package imports beyond both of its rows": {
			Package{ImportPath: "sallyport/internal/webhooks/orders/ordershttp",
				Imports: []string{"sallyport/internal/webhooks/reports"}},
			"sallyport/internal/webhooks/orders/ordershttp imports sallyport/internal/webhooks/reports: not in the row of " +
				"webhooks/ordershttp",
		},
		"a row of an HTTP package serves the capability itself": {
			Package{ImportPath: "sallyport/internal/webhooks/billing", Imports: []string{"sallyport/internal/webhooks/reports"}},
			"sallyport/internal/webhooks/billing imports sallyport/internal/webhooks/reports: not in the row of " +
				"webhooks/billing",
		},
		"a capability imports the composition root": {
			Package{ImportPath: "sallyport/internal/webhooks/orders", Imports: []string{"sallyport/internal/app"}},
			"sallyport/internal/webhooks/orders imports sallyport/internal/app: a capability does not depend on " +
				"packages above the districts",
		},
		"a command imports a capability": {
			Package{ImportPath: "sallyport/cmd/sallyport", Imports: []string{"sallyport/internal/webhooks/orders"}},
			"sallyport/cmd/sallyport imports sallyport/internal/webhooks/orders: commands reach capabilities through " +
				"packages above the districts",
		},
		"a capability imports a world for tests": {
			Package{ImportPath: "sallyport/internal/webhooks/orders",
				Imports: []string{"sallyport/internal/webhooks/orders/orderstest"}},
			"sallyport/internal/webhooks/orders imports sallyport/internal/webhooks/orders/orderstest: not in the row of " +
				"webhooks/orders",
		},
		"a capability without a row": {
			Package{ImportPath: "sallyport/internal/webhooks/stray"},
			"sallyport/internal/webhooks/stray is in no row of the dependency table",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{c.want}, Imports([]Package{c.pkg}, sampleTable()))
		})
	}
}

// Allowed imports are not reported: a check that reports everything would be switched off.
func TestImportsAllowsWhatTheTableAllows(t *testing.T) {
	t.Parallel()
	packages := []Package{
		{ImportPath: "sallyport/internal/platform/db", Imports: []string{"database/sql", "sallyport/internal/platform/clock",
			"sallyport/migrations"}},
		{ImportPath: "sallyport/internal/webhooks/billing", Imports: []string{"sallyport/internal/webhooks/orders",
			"sallyport/internal/platform/db"}, XTestImports: []string{"sallyport/internal/webhooks/reports"}},
		{ImportPath: "sallyport/internal/webhooks/billing/billinghttp",
			Imports: []string{"sallyport/internal/webhooks/billing", "sallyport/internal/webhooks/orders",
				"sallyport/internal/webhooks/reports"}},
		{ImportPath: "sallyport/internal/app", Imports: []string{"sallyport/internal/webhooks/billing",
			"sallyport/internal/webhooks/billing/billinghttp"}},
		{ImportPath: "sallyport/cmd/sallyport", Imports: []string{"sallyport/internal/app",
			"sallyport/internal/platform/config"}},
		{ImportPath: "sallyport/internal/webhooks/orders/orderstest", Imports: []string{"sallyport/internal/webhooks/orders",
			"sallyport/internal/webhooks/reports"}},
		{ImportPath: "sallyport/internal/archtest", XTestImports: []string{"sallyport/internal/app"}},
	}
	require.Empty(t, Imports(packages, sampleTable()))
}

// A table with a cycle or a dangling name would make every import legal or none.
func TestTableFindsEachError(t *testing.T) {
	t.Parallel()
	require.Empty(t, Table(sampleTable()))
	for want, table := range map[string]map[string][]string{
		"identity/a reaches itself":                      {"identity/a": {"identity/a"}},
		"identity/a allows identity/b, which has no row": {"identity/a": {"identity/b"}},
		"identity/a allows identity/bhttp, an HTTP package": {"identity/a": {"identity/bhttp"}, "identity/b": {},
			"identity/bhttp": {}},
		"identity/ghosthttp belongs to no capability":              {"identity/ghosthttp": {}},
		"elsewhere/a is in no district":                            {"elsewhere/a": {}},
		"identity/a allows webhooks/b, whose district comes later": {"identity/a": {"webhooks/b"}, "webhooks/b": {}},
	} {
		require.Equal(t, []string{want}, Table(table))
	}
	require.Equal(t, []string{"identity/a reaches itself", "identity/b reaches itself", "identity/c reaches itself"},
		Table(map[string][]string{
			"identity/a": {"identity/b"}, "identity/b": {"identity/c"}, "identity/c": {"identity/a"},
			"identity/d": {"identity/a"}}))
}

// Rows of HTTP packages are no capabilities: none of them owns a folder with a README.
func TestCapabilitiesLeavesOutHTTPRows(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"identity/people", "webhooks/billing", "webhooks/orders", "webhooks/reports"},
		Capabilities(sampleTable()))
}
