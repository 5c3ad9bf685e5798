package ownevents

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/webhooks/events"
)

// The reference describes every type, and shows exactly the payload that is sent.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/own-events.md")
	require.NoError(t, err)
	sections := strings.Split(string(page), "\n### `")[1:]
	require.Len(t, sections, len(typeInfos()))
	block := regexp.MustCompile("(?s)```json\n(.*?)```")
	shown := map[reflect.Type]bool{}
	for i, kind := range typeInfos() {
		name, text, _ := strings.Cut(sections[i], "`")
		require.Equal(t, string(kind.Type), name)
		require.True(t, strings.HasPrefix(name, events.OwnPrefix))
		require.Contains(t, strings.Join(strings.Fields(text), " "), kind.Summary)
		example := block.FindStringSubmatch(text)
		if example == nil {
			continue
		}
		sent, err := json.Marshal(kind.Example)
		require.NoError(t, err)
		require.JSONEq(t, string(sent), example[1], name)
		payload := reflect.New(reflect.TypeOf(kind.Example))
		d := json.NewDecoder(bytes.NewReader(sent))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(payload.Interface()))
		again, err := json.Marshal(payload.Interface())
		require.NoError(t, err)
		require.JSONEq(t, string(sent), string(again))
		shown[reflect.TypeOf(kind.Example)] = true
	}
	for _, kind := range typeInfos() {
		require.True(t, shown[reflect.TypeOf(kind.Example)], "%s has a payload that is shown nowhere", kind.Type)
	}
}
