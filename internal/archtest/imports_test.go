package archtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func sampleTable() map[string][]string {
	return map[string][]string{
		"billing":     {"orders"},
		"orders":      {},
		"reports":     {},
		"billinghttp": {"reports"},
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
			Package{ImportPath: "sallyport/internal/platform/db", Imports: []string{"sallyport/internal/orders"}},
			"sallyport/internal/platform/db imports sallyport/internal/orders: platform knows no capability",
		},
		"a platform test imports a capability": {
			Package{ImportPath: "sallyport/internal/platform/db", XTestImports: []string{"sallyport/internal/orders"}},
			"sallyport/internal/platform/db imports sallyport/internal/orders: platform knows no capability",
		},
		"a capability imports against the table": {
			Package{ImportPath: "sallyport/internal/orders", Imports: []string{"sallyport/internal/billing"}},
			"sallyport/internal/orders imports sallyport/internal/billing: not in the row of orders",
		},
		"a folder below a capability imports against the table": {
			Package{ImportPath: "sallyport/internal/orders/match", Imports: []string{"sallyport/internal/billing"}},
			"sallyport/internal/orders/match imports sallyport/internal/billing: not in the row of orders",
		},
		"a capability imports its own HTTP package": {
			Package{ImportPath: "sallyport/internal/orders", Imports: []string{"sallyport/internal/orders/ordershttp"}},
			"sallyport/internal/orders imports sallyport/internal/orders/ordershttp: only internal/app mounts HTTP packages",
		},
		"an HTTP package imports another HTTP package": {
			Package{ImportPath: "sallyport/internal/billing/billinghttp", Imports: []string{"sallyport/internal/orders/ordershttp"}},
			"sallyport/internal/billing/billinghttp imports sallyport/internal/orders/ordershttp: only internal/app mounts HTTP packages",
		},
		"an HTTP package imports beyond both of its rows": {
			Package{ImportPath: "sallyport/internal/orders/ordershttp", Imports: []string{"sallyport/internal/reports"}},
			"sallyport/internal/orders/ordershttp imports sallyport/internal/reports: not in the row of ordershttp",
		},
		"a row of an HTTP package serves the capability itself": {
			Package{ImportPath: "sallyport/internal/billing", Imports: []string{"sallyport/internal/reports"}},
			"sallyport/internal/billing imports sallyport/internal/reports: not in the row of billing",
		},
		"a capability imports the composition root": {
			Package{ImportPath: "sallyport/internal/orders", Imports: []string{"sallyport/internal/app"}},
			"sallyport/internal/orders imports sallyport/internal/app: the composition root is nobody's dependency",
		},
		"a command imports a capability": {
			Package{ImportPath: "sallyport/cmd/sallyport", Imports: []string{"sallyport/internal/orders"}},
			"sallyport/cmd/sallyport imports sallyport/internal/orders: commands reach capabilities through internal/app",
		},
		"a capability without a row": {
			Package{ImportPath: "sallyport/internal/stray"},
			"sallyport/internal/stray is in no row of the dependency table",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{c.want}, Imports([]Package{c.pkg}, sampleTable()))
		})
	}
}

// What the rules allow stays silent: a check that reports everything would be switched off.
func TestImportsAllowsWhatTheTableAllows(t *testing.T) {
	t.Parallel()
	packages := []Package{
		{ImportPath: "sallyport/internal/platform/db", Imports: []string{"database/sql", "sallyport/internal/platform/clock", "sallyport/migrations"}},
		{ImportPath: "sallyport/internal/billing", Imports: []string{"sallyport/internal/orders", "sallyport/internal/platform/db"}, XTestImports: []string{"sallyport/internal/reports"}},
		{ImportPath: "sallyport/internal/billing/billinghttp", Imports: []string{"sallyport/internal/billing", "sallyport/internal/orders", "sallyport/internal/reports"}},
		{ImportPath: "sallyport/internal/app", Imports: []string{"sallyport/internal/billing", "sallyport/internal/billing/billinghttp"}},
		{ImportPath: "sallyport/cmd/sallyport", Imports: []string{"sallyport/internal/app", "sallyport/internal/platform/config"}},
		{ImportPath: "sallyport/internal/archtest", XTestImports: []string{"sallyport/internal/app"}},
	}
	require.Empty(t, Imports(packages, sampleTable()))
}

// A table with a cycle or a dangling name would make every import legal or none.
func TestTableFindsEachFault(t *testing.T) {
	t.Parallel()
	require.Empty(t, Table(sampleTable()))
	require.Equal(t, []string{"a reaches itself", "b reaches itself", "c reaches itself"},
		Table(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}))
	require.Equal(t, []string{"a allows b, which has no row"},
		Table(map[string][]string{"a": {"b"}}))
	require.Equal(t, []string{"a allows bhttp, an HTTP package"},
		Table(map[string][]string{"a": {"bhttp"}, "b": {}, "bhttp": {}}))
	require.Equal(t, []string{"ghosthttp stands beside no capability"},
		Table(map[string][]string{"ghosthttp": {}}))
}

// Rows of HTTP packages are no capabilities: none of them owns a folder with a README.
func TestCapabilitiesLeavesOutHTTPRows(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"billing", "orders", "reports"}, Capabilities(sampleTable()))
}
