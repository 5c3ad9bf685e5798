package obs_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/obs"
)

// Every line that was logged before Close is written, whole and once, also with concurrent logging.
func TestWriterLosesNoLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := obs.NewWriter(&out)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				_, _ = fmt.Fprintf(w, "goroutine %d line %d %s\n", g, i, strings.Repeat("x", 200))
			}
		})
	}
	wg.Wait()
	w.Close()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 8*500)
	seen := map[string]bool{}
	for _, l := range lines {
		require.True(t, strings.HasPrefix(l, "goroutine ") && strings.HasSuffix(l, "x"), l)
		require.False(t, seen[l], l)
		seen[l] = true
	}
}

// Logging waits for a writer that is slow instead of growing without end, and goes on when it has caught up.
func TestWriterBoundsWhatWaits(t *testing.T) {
	t.Parallel()
	r, slow := io.Pipe()
	w := obs.NewWriter(slow)
	const total = 4 << 20
	done := make(chan struct{})
	go func() {
		defer close(done)
		line := bytes.Repeat([]byte("y"), 1<<10)
		for range total >> 10 {
			_, _ = w.Write(line)
		}
		w.Close()
		_ = slow.Close()
	}()
	n, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.EqualValues(t, total, n)
	<-done
}

// A line keeps what its parts recorded; a line without an event ignores it.
func TestLineGathers(t *testing.T) {
	t.Parallel()
	var none *obs.Line
	none.Add()
	none.Fail(io.EOF)
	e := &obs.Line{}
	e.Fail(io.EOF)
	ctx := obs.WithLine(t.Context(), e)
	require.Same(t, e, obs.LineFrom(ctx))
	_, err := e.Take()
	require.ErrorIs(t, err, io.EOF)
}

// A line of a request or attempt is the one that the logger itself would write, at the levels that the logger writes.
func TestWriteLineIsTheLoggersLine(t *testing.T) {
	t.Parallel()
	var direct, through bytes.Buffer
	withoutTime := func(out io.Writer) *slog.Logger {
		return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime && !a.Value.Time().IsZero() {
				return slog.String(a.Key, "set")
			}
			return a
		}})).With("node", "a")
	}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelError} {
		attrs := []slog.Attr{slog.String("a", "x"), slog.Int("b", 1), slog.Bool("c", true), slog.Int("d", 2),
			slog.Int("e", 3), slog.Float64("f", 0.5)}
		withoutTime(&through).LogAttrs(t.Context(), level, "request", attrs...)
		obs.WriteLine(t.Context(), withoutTime(&direct), level, "request", attrs...)
	}
	require.Equal(t, 2, strings.Count(direct.String(), "\n"))
	require.Equal(t, through.String(), direct.String())
}
