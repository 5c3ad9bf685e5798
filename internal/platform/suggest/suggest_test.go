package suggest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/suggest"
)

// A name with a slip in it finds the name that is meant, and another word finds none.
func TestName(t *testing.T) {
	t.Parallel()
	known := []string{"github", "gitlab", "gitea", "x", "standard-webhooks", "slack", "SALLYPORT_LISTEN", "none"}
	for word, want := range map[string]string{
		"githb": "github", "gihtub": "github", "githubb": "github", "GitHub": "github", "gitlob": "gitlab",
		"standardwebhooks": "standard-webhooks", "standard_webhoks": "standard-webhooks",
		"SALLYPORT_LISTN": "SALLYPORT_LISTEN",
		"slcak":           "slack", "stripe": "", "": "", "zoom": "", "acme-internal": "",
		"nope": "", "noen": "none", "nonee": "none", "non": "none",
	} {
		got, ok := suggest.Name(word, known)
		require.Equal(t, want, got, word)
		require.Equal(t, want != "", ok, word)
	}
	require.Equal(t, ". Did you mean github?", suggest.Question("githb", known, nil))
	require.Empty(t, suggest.Question("acme", known, nil))
	aliases := map[string]string{"forgejo": "gitea"}
	require.Equal(t, ". Did you mean gitea?", suggest.Question("Forgejo", known, aliases))
	require.Equal(t, ". Did you mean gitea?", suggest.Question("forgjo", known, aliases))
}

// One edit of a name of at least three bytes is always recognised if no other name is known.
func TestNameProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{4,30}`).Draw(t, "name")
		at := rapid.IntRange(0, len(name)-1).Draw(t, "at")
		letter := rapid.StringMatching(`[a-z]?`).Draw(t, "letter")
		word := name[:at] + letter + name[at+rapid.IntRange(0, 1).Draw(t, "gone"):]
		if len(word) == len(name) && len(name) < 5 && word != name {
			t.Skip("another word")
		}
		got, ok := suggest.Name(word, []string{name})
		if !ok || got != name {
			t.Fatalf("%q does not suggest %q", word, name)
		}
	})
}
