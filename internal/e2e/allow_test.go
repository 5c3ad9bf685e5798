package e2e_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// A path has the methods that the document gives it, and a 405 lists exactly these: not those of a path that has a
// parameter where this one has a name, as /roles/{id} next to /roles/permissions.
func TestAllowListsTheMethodsOfThePath(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		refused := 0
		for path, item := range members(published().root["paths"]) {
			var has []string
			for method := range members(item) {
				has = append(has, strings.ToUpper(method))
			}
			if slices.Contains(has, http.MethodGet) && !slices.Contains(has, http.MethodHead) {
				has = append(has, http.MethodHead)
			}
			slices.Sort(has)
			sample := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x")
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
				http.MethodDelete, http.MethodOptions, http.MethodTrace, "PROPFIND"} {
				if slices.Contains(has, method) {
					continue
				}
				a := w.call(anonymous, method, sample, nil).want(w, http.StatusMethodNotAllowed)
				require.Equal(w.t, strings.Join(has, ", "), a.header.Get("Allow"), "%s %s", method, path)
				if method != http.MethodHead {
					a.refused(w, http.StatusMethodNotAllowed, apperr.CodeHTTP)
				}
				refused++
			}
		}
		require.Greater(w.t, refused, 300)
	}, withoutLimits)
}
