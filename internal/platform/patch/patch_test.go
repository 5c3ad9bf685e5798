package patch_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/patch"
)

type body struct {
	Text   patch.Field[string]          `json:"text"`
	Number patch.Field[int64]           `json:"number"`
	Object patch.Field[patch.Object]    `json:"object"`
	Kept   patch.Optional[int64]        `json:"kept"`
	List   patch.Optional[[]string]     `json:"list"`
	Labels patch.Field[map[string]*int] `json:"labels"`
}

// A body distinguishes absent, null and values, for any values.
func TestThreeStates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]body{
		`{}`:                           {},
		`{"text":null,"kept":null}`:    {Text: patch.Clear[string]()},
		`{"text":"","number":0}`:       {Text: patch.To(""), Number: patch.To(int64(0))},
		`{"number":2e3,"kept":7.0}`:    {Number: patch.To(int64(2000)), Kept: patch.Some(int64(7))},
		`{"list":[]}`:                  {List: patch.Some([]string{})},
		`{"object":{},"labels":null}`:  {Object: patch.To(patch.Object{}), Labels: patch.Clear[map[string]*int]()},
		`{"object":{"n":1.50,"o":{}}}`: {Object: patch.To(patch.Object{"n": json.Number("1.50"), "o": map[string]any{}})},
		`{"labels":{"a":null,"b":2}}`:  {Labels: patch.To(map[string]*int{"a": nil, "b": new(2)})},
	} {
		var got body
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		require.Equal(t, want, got, text)
	}
	for _, bad := range []string{`{"number":1.5}`, `{"number":1e300}`, `{"kept":"1"}`, `{"object":[]}`} {
		var got body
		require.Error(t, json.Unmarshal([]byte(bad), &got), bad)
	}
	// A value that comes twice is the last one in full.
	var twice body
	require.NoError(t, json.Unmarshal([]byte(`{"text":"a","text":null}`), &twice))
	require.Equal(t, patch.Clear[string](), twice.Text)
}

// Absent keeps, null clears, a value replaces.
func TestOr(t *testing.T) {
	t.Parallel()
	one, two := 1, 2
	require.Equal(t, 1, patch.Field[int]{}.Or(1, 9))
	require.Equal(t, 9, patch.Clear[int]().Or(1, 9))
	require.Equal(t, 2, patch.To(2).Or(1, 9))
	require.Equal(t, &one, patch.Field[int]{}.Pointer(&one))
	require.Nil(t, patch.Clear[int]().Pointer(&one))
	require.Equal(t, &two, patch.To(2).Pointer(&one))
	require.Equal(t, 1, patch.Optional[int]{}.Or(1))
	require.Equal(t, 2, patch.Some(2).Or(1))
	require.Nil(t, patch.Optional[int]{}.Pointer())
	require.Equal(t, &two, patch.Some(2).Pointer())
	require.False(t, patch.Field[int]{}.Given() || patch.Clear[int]().Given())
	require.True(t, patch.To(0).Given())
}

func objects(depth int) *rapid.Generator[map[string]any] {
	value := rapid.Custom(func(t *rapid.T) any {
		switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case kind == 0:
			return nil
		case kind == 1 && depth > 0:
			return objects(depth-1).Draw(t, "object")
		case kind == 2:
			return []any{map[string]any{"null": nil}}
		default:
			return rapid.StringMatching("[ab]").Draw(t, "text")
		}
	})
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value, 0, 3)
}

// Merge is MergePatch of RFC 7396, and changes none of its arguments.
func TestMergeAgainstTheStandard(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		target, p := objects(2).Draw(rt, "target"), objects(2).Draw(rt, "patch")
		want := [2][]byte{marshal(rt, target), marshal(rt, p)}
		got := patch.Merge(target, patch.To(patch.Object(p)))
		require.Equal(rt, mergePatch(target, p), any(got))
		require.Equal(rt, want, [2][]byte{marshal(rt, target), marshal(rt, p)})
		require.Equal(rt, target, patch.Merge(target, patch.Field[patch.Object]{}))
		require.Equal(rt, map[string]any{}, patch.Merge(target, patch.Clear[patch.Object]()))
	})
}

// mergePatch is the pseudocode of RFC 7396 section 2.
func mergePatch(target, p any) any {
	members, ok := p.(map[string]any)
	if !ok {
		return p
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	object = maps.Clone(object)
	for name, value := range members {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = mergePatch(object[name], value)
		}
	}
	return object
}

func marshal(t require.TestingT, v any) []byte {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

// Members merge by name; the object that is patched stays as it is.
func TestMergeMembers(t *testing.T) {
	t.Parallel()
	target := map[string]string{"a": "1", "b": "2"}
	require.Equal(t, map[string]string{"b": "3", "c": ""}, patch.MergeMembers(target,
		patch.To(map[string]*string{"a": nil, "b": new("3"), "c": new(""), "d": nil})))
	require.Equal(t, map[string]string{}, patch.MergeMembers(target, patch.Clear[map[string]*string]()))
	require.Equal(t, target, patch.MergeMembers(target, patch.Field[map[string]*string]{}))
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, target)
}
