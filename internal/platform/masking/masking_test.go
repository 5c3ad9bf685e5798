package masking_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/masking"
)

const core = "q7Rk2ZtWm9XvB4Ld"

// However a text quotes a secret, its characters are gone: in clear, escaped, in hexadecimal, and in base64 with
// anything before and after it, such as the user name of basic authentication.
func TestMasksEveryForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := core + rapid.StringMatching(`[ -~äß"<>&+/\\]{0,12}`).Draw(t, "rest") + core
		before, after := rapid.StringN(0, 9, -1).Draw(t, "before"), rapid.StringN(0, 9, -1).Draw(t, "after")
		var m masking.Masker
		m.Add(secret)
		text := before + secret + after
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		for form, plain := range map[string]string{
			text:                  core,
			url.QueryEscape(text): core,
			url.PathEscape(text):  core,
			string(quoted):        core,
			strings.ReplaceAll(url.QueryEscape(text), "+", "%20"): core,
			hex.EncodeToString([]byte(text)):                      hex.EncodeToString([]byte(core)),
			strings.ToUpper(hex.EncodeToString([]byte(text))):     strings.ToUpper(hex.EncodeToString([]byte(core))),
		} {
			require.NotContains(t, m.Text(form), plain)
			require.NotContains(t, string(m.Bytes([]byte(form), false)), plain)
			require.True(t, m.Shows(form))
			require.True(t, m.Shows(m.Text(form)))
		}
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			masked := m.Text(e.EncodeToString([]byte(text)))
			for offset := range 3 {
				inside := e.EncodeToString(append(make([]byte, offset), core...))[4:20]
				require.NotContains(t, masked, inside)
			}
		}
	})
}

// A secret that was cut in two by a limit is not shown in part, and a text without a secret is left as it is.
func TestMasksWhatIsCut(t *testing.T) {
	t.Parallel()
	var m masking.Masker
	m.Add(core, "abc", "", core+"-longer")
	for n := 4; n < len(core); n++ {
		require.Equal(t, "token [redacted]", string(m.Bytes([]byte("token "+core[:n]), true)))
	}
	require.Equal(t, "token [redacted]", string(m.Bytes([]byte("token "+core+"-lon"), true)[:16]))
	require.Equal(t, "abc token "+core[:3], string(m.Bytes([]byte("abc token "+core[:3]), true)))
	require.Equal(t, http.Header{"A": {"x [redacted]", "y"}}, m.Header(http.Header{"A": {"x " + core, "y"}}))
	require.False(t, m.Shows("abc"))
	var none masking.Masker
	require.Equal(t, core, none.Text(core))
	require.Equal(t, core, string(none.Bytes([]byte(core), true)))
}
