package canon_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/canon"
	"sallyport/internal/platform/jsonindex"
)

func canonical(t require.TestingT, text string) string {
	index, err := jsonindex.Parse([]byte(text), 100)
	require.NoError(t, err)
	return string(canon.Append(nil, index.Root()))
}

// The examples of RFC 8785: sections 3.2.2 and 3.2.3, and appendix B.
func TestRFC8785(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],`+
		`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		canonical(t, `{ "numbers": [333333333.3333333, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }`))
	require.Equal(t, "{\"\\r\":1,\"1\":2,\"\u0080\":3,\"\u00f6\":4,\"\u20ac\":5,\"\U0001f600\":6,\"\ufb33\":7}",
		canonical(t, `{"\u20ac":5,"\r":1,"\ufb33":7,"1":2,"\ud83d\ude00":6,"\u0080":3,"\u00f6":4}`))
	for text, want := range map[string]string{
		"-0": "0", "5e-324": "5e-324", "1.7976931348623157e308": "1.7976931348623157e+308",
		"9007199254740992":      "9007199254740992",
		"295147905179352830000": "295147905179352830000", "9.999999999999997e22": "9.999999999999997e+22",
		"1e23": "1e+23", "999999999999999700000": "999999999999999700000", "0.000001": "0.000001",
		"9.999999999999997e-7": "9.999999999999997e-7", "333333333.33333325": "333333333.33333325",
	} {
		require.Equal(t, want, canonical(t, text))
	}
}

// A number that no double has keeps all its digits, however it is written, and its canonical form is its own.
func TestNumbersAreNotRounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"9007199254740993": "9007199254740993", "900719925474099300e-2": "9007199254740993",
		"0.10000000000000000001": "10000000000000000001e-20", "-1e400": "-1e400", "100e399": "1e401",
	} {
		require.Equal(t, want, canonical(t, text))
		require.Equal(t, want, canonical(t, want))
	}
	require.NotEqual(t, canonical(t, "9007199254740992"), canonical(t, "9007199254740993"))
}

// The canonical form means what the text means, and is that of every text that means the same.
func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.String().AsAny(),
			rapid.SliceOf(rapid.Bool()).AsAny())).Draw(t, "value")
		text, err := json.Marshal(value)
		require.NoError(t, err)
		indented, err := json.MarshalIndent(value, " ", "\t")
		require.NoError(t, err)
		form := canonical(t, string(text))
		require.JSONEq(t, string(text), form)
		require.Equal(t, form, canonical(t, string(indented)))
		require.Equal(t, form, canonical(t, form))
	})
}
