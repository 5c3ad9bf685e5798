package egress

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// BenchmarkDo measures a POST of 1 KiB over idle connections to a peer that costs next to nothing itself.
func BenchmarkDo(b *testing.B) {
	var lc net.ListenConfig
	l, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go respondFast(conn)
		}
	}()
	c := New(dev(), Options{})
	b.Cleanup(c.Close)
	u, terr := c.ParseTarget("http://" + l.Addr().String() + "/hook")
	if terr != nil {
		b.Fatal(terr)
	}
	header := http.Header{"User-Agent": {"bench"}, "Content-Type": {"application/json"}, "Webhook-Id": {"x"}}
	body := make([]byte, 1024)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := c.Do(b.Context(), Request{Method: http.MethodPost, URL: u, Header: header, Body: body,
				MaxResponseBytes: 16 << 10})
			if err != nil || resp.Status != http.StatusOK {
				b.Error(err)
				return
			}
		}
	})
}

// respondFast reads requests by their blank line and a body of 1 KiB, and responds without net/http.
func respondFast(c net.Conn) {
	defer func() { _ = c.Close() }()
	response := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	for r := bufio.NewReader(c); ; {
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
		}
		if _, err := io.CopyN(io.Discard, r, 1024); err != nil {
			return
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}
