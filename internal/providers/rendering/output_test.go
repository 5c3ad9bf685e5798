package rendering_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/rendering"
)

// JSON stays as it came, texts are distinguished from bytes, and an empty body is null.
func TestOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, body, want string }{
		{"application/json; charset=utf-8", " {\"a\": 1.50}\n", `{"a": 1.50}`},
		{"application/problem+json", `[]`, `[]`},
		{"", `{"a":1}`, `{"a":1}`},
		{"application/json", "", "null"},
		{"application/json", "\ufeff{\"a\":1}", `{"a":1}`},
		{"", "\n", "null"},
		{"application/json", `{"a":`, `{"content_type":"application/json","text":"{\"a\":"}`},
		{"text/html", "<p>ä</p>", `{"content_type":"text/html","text":"\u003cp\u003eä\u003c/p\u003e"}`},
		{"text/html", `{"a":1}`, `{"content_type":"text/html","text":"{\"a\":1}"}`},
		{"image/png", "\x89PNG", `{"content_type":"image/png","base64":"iVBORw=="}`},
		{"text/plain", "\xff", `{"content_type":"text/plain","base64":"/w=="}`},
		{";;", "x", `{"content_type":"application/octet-stream","text":"x"}`},
	} {
		require.Equal(t, c.want, string(rendering.Output(c.kind, []byte(c.body), false)), c.kind+c.body)
	}
	// A cut text does not end within a character.
	require.Equal(t, `{"content_type":"application/json","text":"[\"a"}`,
		string(rendering.Output("application/json", []byte("[\"a\xc3"), true)))
}

// A coded body is decoded within the limit, and one that is broken is an error, not half a response.
func TestDecompress(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(bytes.Repeat([]byte("a"), 5000))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	header := http.Header{"Content-Encoding": {"GZIP"}}
	plain, cut, err := rendering.Decompress(header, packed.Bytes(), false, 5000)
	require.NoError(t, err)
	require.False(t, cut)
	require.Len(t, plain, 5000)
	plain, cut, err = rendering.Decompress(header, packed.Bytes(), false, 100)
	require.NoError(t, err)
	require.True(t, cut)
	require.Len(t, plain, 100)
	_, _, err = rendering.Decompress(header, packed.Bytes()[:packed.Len()-9], false, 5000)
	require.Error(t, err)
	_, cut, err = rendering.Decompress(header, packed.Bytes()[:packed.Len()-9], true, 5000)
	require.NoError(t, err)
	require.True(t, cut)
	_, _, err = rendering.Decompress(header, []byte("no gzip"), false, 5000)
	require.Error(t, err)
	plain, cut, err = rendering.Decompress(header, nil, false, 5000)
	require.NoError(t, err, "204 with a coding")
	require.False(t, cut)
	require.Empty(t, plain)
	_, _, err = rendering.Decompress(http.Header{"Content-Encoding": {"br"}}, []byte("x"), false, 5000)
	require.Error(t, err)
	plain, _, err = rendering.Decompress(http.Header{}, []byte("x"), false, 5000)
	require.NoError(t, err)
	require.Equal(t, "x", string(plain))
}
