package wire_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/bench/internal/wire"
)

// A stream is cut into reads at random places; the messages must come out whole and in order however it was cut.
func TestRequestsSurviveAnyFragmentation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 20_000), 1, 6).Draw(t, "bodies")
		var stream bytes.Buffer
		for _, body := range bodies {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://peer.test/in", bytes.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("Webhook-Id", "msg_1")
			require.NoError(t, req.Write(&stream))
		}
		seed := rapid.SliceOfN(rapid.IntRange(1, 4096), 1, 8).Draw(t, "cuts")
		r := wire.NewReader(&chopped{src: &stream, sizes: seed})
		for _, body := range bodies {
			m, err := r.Request()
			require.NoError(t, err)
			require.Equal(t, "POST /in HTTP/1.1", string(m.StartLine))
			require.Equal(t, "msg_1", m.Header("webhook-id"))
			require.Equal(t, "peer.test", m.Header("host"))
			require.True(t, bytes.Equal(body, m.Body))
			require.False(t, m.Close)
		}
		_, err := r.Request()
		require.ErrorIs(t, err, io.EOF)
	})
}

// chopped returns at most sizes[i] bytes from read number i.
type chopped struct {
	src   io.Reader
	sizes []int
	reads int
}

func (c *chopped) Read(p []byte) (int, error) {
	n := min(len(p), c.sizes[c.reads%len(c.sizes)])
	c.reads++
	return c.src.Read(p[:n])
}

// Responses are distinguished by status and framing. A response without a certain end must be an error, not a guess.
func TestResponse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in     string
		status int
		body   string
		closed bool
		err    error
	}{
		"ok":         {in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", status: 200, body: "{}"},
		"no reason":  {in: "HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", status: 200},
		"no content": {in: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		"interim first": {in: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: " +
			"1\r\n\r\nx", status: 503, body: "x"},
		"close": {in: "HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", status: 413,
			closed: true},
		"old version": {in: "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200, closed: true},
		"same length twice": {in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", status: 200,
			body: "x"},
		"chunked":     {in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", err: wire.ErrUnsupported},
		"until close": {in: "HTTP/1.1 200 OK\r\n\r\n{}", err: wire.ErrUnsupported},
		"two lengths": {in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
			err: wire.ErrMalformed},
		"negative length": {in: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", err: wire.ErrMalformed},
		"huge":            {in: "HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n", err: wire.ErrTooLarge},
		"truncated body":  {in: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", err: io.ErrUnexpectedEOF},
		"truncated head":  {in: "HTTP/1.1 200 OK\r\n", err: io.ErrUnexpectedEOF},
		"nothing":         {in: "", err: io.EOF},
		"not HTTP":        {in: "SSH-2.0-x\r\n\r\n", err: wire.ErrMalformed},
		"HTTP/2":          {in: "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", err: wire.ErrMalformed},
		"no colon":        {in: "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n", err: wire.ErrMalformed},
		"endless head":    {in: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20), err: wire.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, src := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in))} {
				m, err := wire.NewReader(src).Response()
				if tc.err != nil {
					require.ErrorIs(t, err, tc.err)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, tc.status, m.Status)
				require.Equal(t, tc.body, string(m.Body))
				require.Equal(t, tc.closed, m.Close)
			}
		})
	}
}

// For any input the reader must end without a panic, and where net/http also accepts the request the bodies must agree:
// a framing difference would let the sink count something that was never sent.
func FuzzRequestAgreesWithNetHTTP(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := wire.NewReader(bytes.NewReader(in)).Request()
		if err != nil {
			return
		}
		ref, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			return
		}
		want, err := io.ReadAll(ref.Body)
		require.NoError(t, ref.Body.Close())
		require.NoError(t, err)
		require.Equal(t, string(want), string(m.Body))
	})
}
