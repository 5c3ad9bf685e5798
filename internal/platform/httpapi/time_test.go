package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Times on the wire have one form, for any zone and precision of the value.
func TestTimeHasOneForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"2026-01-02T03:04:05Z"`:                `"2026-01-02T03:04:05.000Z"`,
		`"2026-01-02T03:04:05.12Z"`:             `"2026-01-02T03:04:05.120Z"`,
		`"2026-01-02T03:04:05.123999Z"`:         `"2026-01-02T03:04:05.123Z"`,
		`"2026-01-02T03:04:05.500+02:00"`:       `"2026-01-02T01:04:05.500Z"`,
		`"1969-12-31T23:59:59.999999999-00:00"`: `"1969-12-31T23:59:59.999Z"`,
	} {
		var got Time
		require.NoError(t, json.Unmarshal([]byte(in), &got), in)
		out, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, want, string(out), in)
	}
	for _, in := range []string{`""`, `1`, `"2026-01-02"`, `"2026-01-02 03:04:05Z"`, `"2026-13-02T03:04:05Z"`,
		`"2026-01-02T3:04:05Z"`, `"2026-01-02T03:04:05,5Z"`, `"2026-01-02T03:04:05+24:00"`, `"2026-01-02T03:04:05+01:60"`,
		`"2026-01-02t03:04:05z"`} {
		var got Time
		require.Error(t, json.Unmarshal([]byte(in), &got), in)
	}
	finer, err := json.Marshal(Time(time.Unix(0, 1_999_999).In(time.FixedZone("x", 3600))))
	require.NoError(t, err)
	require.Equal(t, `"1970-01-01T00:00:00.001Z"`, string(finer))
}

// A stored time comes back the same, and an absent time stays absent.
func TestTimeKeepsMilliseconds(t *testing.T) {
	t.Parallel()
	require.Nil(t, TimePtr(nil))
	require.Nil(t, (*Time)(nil).MillisPtr())
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 253402300799999).Draw(t, "ms") // up to the end of year 9999, RFC 3339's last
		text, err := json.Marshal(TimePtr(&ms))
		require.NoError(t, err)
		var back *Time
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, ms, *back.MillisPtr())
	})
}
