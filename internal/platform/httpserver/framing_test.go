package httpserver

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// acceptedHeads returns the headers, as they were sent, of the requests that net/http accepts from a connection.
func acceptedHeads(data []byte) []textproto.MIMEHeader {
	source := bytes.NewReader(data)
	r := bufio.NewReader(source)
	at := func() int { return len(data) - source.Len() - r.Buffered() }
	var all []textproto.MIMEHeader
	for last := ""; ; {
		if last == http.MethodPost { // as the server does after a POST
			for range 4 {
				if next, err := r.Peek(1); err != nil || next[0] != '\r' && next[0] != '\n' {
					break
				}
				_, _ = r.Discard(1) // it was peeked
			}
		}
		begin := at()
		request, err := http.ReadRequest(r)
		if err != nil {
			return all
		}
		last = request.Method
		head := textproto.NewReader(bufio.NewReader(bytes.NewReader(data[begin:at()])))
		_, _ = head.ReadLine() // the request line, which net/http has read
		header, _ := head.ReadMIMEHeader()
		if header == nil {
			return all
		}
		header["Version"] = []string{request.Proto}
		all = append(all, header)
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return all
		}
	}
}

// scanPieces scans data in pieces of a size, and reports whether a line was refused.
func scanPieces(data []byte, size int) (refused bool, passed int) {
	var f framing
	for len(data) > 0 {
		piece := data[:min(size, len(data))]
		n, reason := f.scan(piece)
		passed += n
		if reason != "" {
			return true, passed
		}
		data = data[len(piece):]
	}
	return false, passed
}

// Of all that net/http accepts, nothing ambiguous passes; and where a line is refused does not depend on how the bytes
// are cut.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\nHost: x\nContent-Length: 2\n\nabGET / HTTP/1.1\nHost: x\nContent-Length:\n 5\n\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\nT: u\r\n\r\nPOST / HTTP/1.0\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\n\r\n\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
	} {
		f.Add([]byte(seed), 7)
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		refused, passed := scanPieces(data, len(data)+1)
		require.LessOrEqual(t, passed, len(data))
		again, same := scanPieces(data, max(size%100, 1))
		require.Equal(t, refused, again)
		require.Equal(t, passed, same)
		if refused {
			return
		}
		for _, h := range acceptedHeads(data) {
			require.LessOrEqual(t, len(h["Content-Length"]), 1, "%q", data)
			if len(h["Transfer-Encoding"]) > 0 {
				require.Empty(t, h["Content-Length"], "%q", data)
				require.NotEqual(t, []string{"HTTP/1.0"}, h["Version"], "%q", data)
			}
		}
	})
}

// A request costs a few hundred nanoseconds and no memory.
func BenchmarkFraming(b *testing.B) {
	body := strings.Repeat("x", 2<<10)
	for name, text := range map[string]string{
		"length": "POST /api/v1/webhook/whk_06dprg8dj1v6hckm0sjzmn2m1c HTTP/1.1\r\nHost: hooks.example.com\r\n" +
			"User-Agent: GitHub-Hookshot/044aadd\r\nContent-Length: 2048\r\nAccept: */*\r\n" +
			"Content-Type: application/json\r\nX-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958\r\n" +
			"X-GitHub-Event: issues\r\nX-GitHub-Hook-ID: 292430182\r\nX-GitHub-Hook-Installation-Target-ID: 79929171\r\n" +
			"X-GitHub-Hook-Installation-Target-Type: repository\r\n" +
			"X-Hub-Signature-256: sha256=d57c68ca6f92289e6987922ff26938930f6e66a2d161ef06abdf1859230aa23c\r\n\r\n" + body,
		"chunks": "POST / HTTP/1.1\r\nHost: hooks.example.com\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + body +
			"\r\n0\r\n\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			data := []byte(text)
			var f framing
			for b.Loop() {
				if _, reason := f.scan(data); reason != "" || f.state != atStart {
					b.Fatal(reason)
				}
			}
		})
	}
}
