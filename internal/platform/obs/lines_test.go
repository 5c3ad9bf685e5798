package obs

import (
	"bytes"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// A line that is written without slog's encoder is the line that slog writes, byte for byte.
func TestAppendLineIsSlogsLine(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.StringMatching(`[ -~]{0,20}`), rapid.String(),
		rapid.SampledFrom([]string{"", "\"", "\\", "\x7f", "\x1f", "<&>", " ", "\xff"}))
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		at := time.Unix(rapid.Int64Range(-1<<38, 1<<38).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		return at.In(time.FixedZone("", 3600*rapid.IntRange(-12, 12).Draw(t, "zone")))
	})
	value := rapid.Custom(func(t *rapid.T) slog.Value {
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			return slog.Int64Value(rapid.Int64().Draw(t, "int"))
		case 1:
			return slog.Uint64Value(rapid.Uint64().Draw(t, "uint"))
		case 2:
			return slog.Float64Value(rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 100), rapid.SampledFrom([]float64{0,
				math.Copysign(0, -1), 1e-6, 9e-7, 1e21, 9e20, math.Inf(1), math.NaN()})).Draw(t, "float"))
		case 3:
			return slog.BoolValue(rapid.Bool().Draw(t, "bool"))
		case 4:
			return slog.DurationValue(time.Duration(rapid.Int64().Draw(t, "duration")))
		case 5:
			return slog.TimeValue(moment.Draw(t, "time"))
		case 6:
			return slog.AnyValue(nil)
		default:
			return slog.StringValue(text.Draw(t, "text"))
		}
	})
	direct := 0
	rapid.Check(t, func(t *rapid.T) {
		now, message := moment.Draw(t, "now"), text.Draw(t, "message")
		level := slog.Level(rapid.IntRange(-6, 10).Draw(t, "level"))
		var attrs []slog.Attr
		for range rapid.IntRange(0, 12).Draw(t, "attrs") {
			attrs = append(attrs, slog.Attr{Key: text.Draw(t, "key"), Value: value.Draw(t, "value")})
		}
		line, ok := appendLine(nil, now, level, message, attrs)
		if !ok {
			return
		}
		direct++
		var want bytes.Buffer
		r := slog.NewRecord(now, level, message, 0)
		r.AddAttrs(attrs...)
		h := slog.NewJSONHandler(&want, &slog.HandlerOptions{Level: slog.Level(-10)})
		require.NoError(t, h.Handle(t.Context(), r))
		require.Equal(t, want.String(), string(line))
	})
	require.Positive(t, direct)
}

// A line that an encoder must write is left to it, and none is written twice or lost, through the limit of outages.
func TestWriteLineWritesEachLineOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out)
	log := slog.New(NewOutages(NewLogger(w, "json", "info").Handler(), clock.NewManual(time.UnixMilli(0))))
	WriteLine(t.Context(), log, slog.LevelDebug, "hidden")
	WriteLine(t.Context(), log, slog.LevelInfo, "plain", slog.Int("n", 1))
	WriteLine(t.Context(), log, slog.LevelInfo, "quoted", slog.String("s", "a\"b"))
	WriteLine(t.Context(), log, slog.LevelError, "failed", slog.Float64("f", 0.25))
	for range 3 {
		WriteLine(t.Context(), log, slog.LevelError, "limited", Outage("test"))
	}
	w.Close()
	var messages []string
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(line, `"level":`)
		messages = append(messages, strings.TrimSuffix(rest, "\n"))
	}
	require.Equal(t, []string{`"INFO","msg":"plain","n":1}`, `"INFO","msg":"quoted","s":"a\"b"}`,
		`"ERROR","msg":"failed","f":0.25}`, `"ERROR","msg":"limited","outage":"test","left_out":0}`}, messages)
}

// Lines that may wait are written although none follows them, and before a line that may not wait.
func TestGatheredLinesAreWrittenInOrder(t *testing.T) {
	t.Parallel()
	out := &calls{}
	w := NewWriter(out)
	defer w.Close()
	w.gather([]byte("a"))
	await.Condition(t, "the first line", func() bool { return out.text() == "a" })
	w.gather([]byte("b"))
	w.gather([]byte("c"))
	await.Condition(t, "lines that nothing follows", func() bool { return out.text() == "abc" })
	w.gather([]byte("d"))
	_, err := w.Write([]byte("e"))
	require.NoError(t, err)
	await.Condition(t, "the line that does not wait", func() bool { return out.text() == "abcde" })
}

// calls is an output that other goroutines may read.
type calls struct {
	mu  sync.Mutex
	all []byte
}

func (c *calls) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, b...)
	return len(b), nil
}

func (c *calls) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.all)
}

// BenchmarkWriteLine is the line of an attempt.
func BenchmarkWriteLine(b *testing.B) {
	for _, c := range []struct {
		name string
		h    func(*Writer) slog.Handler
	}{
		{"slog", func(w *Writer) slog.Handler { return slog.NewJSONHandler(w, nil) }},
		{"direct", func(w *Writer) slog.Handler { return newJSONHandler(w, nil) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := NewWriter(io.Discard)
			defer w.Close()
			log := slog.New(NewOutages(c.h(w), clock.NewManual(time.UnixMilli(0))))
			b.ReportAllocs()
			for b.Loop() {
				WriteLine(b.Context(), log, slog.LevelInfo, "attempt",
					slog.String("event_uuid", "019aa7b2-7c2e-7000-8000-000000000001"),
					slog.String("subscription_id", "sub_01k9xw2r8d5n0f3q7v4t6m1h2c"),
					slog.String("environment_id", "env_01k9xw2r8d5n0f3q7v4t6m1h2c"), slog.Int64("generation", 1),
					slog.Int64("attempt", 1), slog.String("outcome", "succeeded"), slog.String("delivery_status", "succeeded"),
					slog.Float64("seconds", 0.001273456), slog.Int("http_status", 200))
			}
		})
	}
}
