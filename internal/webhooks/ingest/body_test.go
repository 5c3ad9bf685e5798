package ingest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

const (
	memorySize = 64 << 20
	diskSize   = 2 << 30
	largest    = 25 << 20
)

func newTestReader(t *testing.T) *bodyReader {
	t.Helper()
	return newBodyReader(memorySize, diskSize, largest, t.TempDir())
}

// arriving is a request of the source whose body is yet to be read.
func arriving(from byte, announced int64, body io.Reader) *Request {
	return &Request{Source: source(from), connection: string('a' + rune(from)),
		environment: id.Environment('a' + rune(from)), HTTP: &http.Request{ContentLength: announced,
			Body: io.NopCloser(body)}}
}

// content returns n bytes that differ from their neighbours, so that no two places can be mistaken.
func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

// gone requires that no spool file is left.
func gone(t require.TestingT, dir string) {
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
}

// Most deliveries are small. Such a body costs one allocation of exactly its size, and no lock: the test holds both.
//
//nolint:paralleltest // AllocsPerRun counts the whole process's allocations and refuses to run during parallel tests.
func TestSmallBodyCostsOneAllocationAndNoLock(t *testing.T) {
	b := newTestReader(t)
	b.memory.mu.Lock()
	b.disk.mu.Lock()
	for _, size := range []int{1, 1 << 10, 4 << 10} {
		want := content(size)
		sender := bytes.NewReader(want)
		r := arriving(1, int64(size), sender)
		var body []byte
		allocations := testing.AllocsPerRun(100, func() {
			sender.Reset(want)
			var memory *lease
			var err error
			body, memory, err = b.read(r, largest)
			require.NoError(t, err)
			require.Nil(t, memory)
			memory.release()
		})
		require.Equal(t, want, body)
		require.Equal(t, size, cap(body))
		require.LessOrEqual(t, allocations, 1.0, "%d bytes", size)
	}
}

// Every body within its limit arrives whole, for any size, announcement and fragmentation. A larger one is refused,
// never cut short. Its memory is released, and nothing stays on the disk.
func TestBodiesArriveWhole(t *testing.T) {
	t.Parallel()
	b := newTestReader(t)
	around := func(n int) *rapid.Generator[int] { return rapid.IntRange(n-2, n+2) }
	sizes := rapid.OneOf(rapid.IntRange(0, 10), around(freePiece), around(2*freePiece), rapid.IntRange(0, spoolOver),
		around(spoolOver), around(spoolOver+copyPiece), rapid.IntRange(spoolOver, 4*spoolOver))
	all := content(4*spoolOver + 10)
	rapid.Check(t, func(rt *rapid.T) {
		size := sizes.Draw(rt, "size")
		limit := max(1, rapid.OneOf(sizes, rapid.IntRange(size-1, size+1)).Draw(rt, "limit"))
		announced := int64(-1)
		if size <= limit && rapid.Bool().Draw(rt, "announced") {
			announced = int64(size) // one announced as too large is refused before it is read
		}
		var sender io.Reader = bytes.NewReader(all[:size])
		if rapid.Bool().Draw(rt, "end with the last bytes") {
			sender = iotest.DataErrReader(sender)
		}
		if rapid.Bool().Draw(rt, "in pieces") {
			sender = &pieces{r: sender, most: rapid.IntRange(1, 70_000).Draw(rt, "piece")}
		}
		body, memory, err := b.read(arriving(1, announced, sender), int64(limit))
		if size > limit {
			require.True(rt, apperr.Is(err, apperr.CodePayloadTooLarge), "%v", err)
		} else {
			require.NoError(rt, err)
			require.True(rt, bytes.Equal(all[:size], body))
			require.GreaterOrEqual(rt, b.memory.free+int64(cap(body)), int64(memorySize-freePiece))
			if size > freePiece {
				require.GreaterOrEqual(rt, memory.held, int64(cap(body)), "a body in memory is charged in full")
			}
		}
		memory.release()
		unused(rt, b.memory, memorySize)
		unused(rt, b.disk, diskSize)
		gone(rt, b.dir)
	})
}

// pieces reads at most so many bytes at a time.
type pieces struct {
	r    io.Reader
	most int
}

// Read reads a piece.
func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.most)]) }

// A sender's announcement costs the others nothing. Memory is charged for the buffer of the bytes so far, and for a
// body in a file only for the piece on its way there.
func TestMemoryIsChargedAsBytesArrive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		announced int64
		sent      int
		memory    int64
		disk      int64
	}{
		{256 << 10, 0, 0, 0}, {25 << 20, 0, 0, 0}, {-1, 0, 0, 0},
		{256 << 10, 4<<10 - 1, 0, 0}, {256 << 10, 4 << 10, 8 << 10, 0},
		{-1, 8<<10 - 1, 8 << 10, 0}, {-1, 8 << 10, 16 << 10, 0},
		{5000, 4999, 5000, 0}, {100_000, 99_999, 100_000, 0},
		{25 << 20, 256 << 10, 256 << 10, 0},
		{25 << 20, 256<<10 + 1, 32 << 10, 256 << 10},
		{-1, 256<<10 + 1, 32 << 10, 256 << 10},
		{-1, 256<<10 + 32<<10, 32 << 10, 256<<10 + 32<<10},
		{-1, 1<<20 + 5, 32 << 10, 1 << 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newTestReader(t)
			in, out := io.Pipe()
			done := make(chan error)
			go func() {
				_, memory, err := b.read(arriving(1, c.announced, in), largest)
				memory.release()
				done <- err
			}()
			_, err := out.Write(content(c.sent))
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, c.memory, b.memory.held[source(1)], "%+v", c)
			require.Equal(t, c.disk, b.disk.held[source(1)], "%+v", c)
			require.NoError(t, out.CloseWithError(errors.New("the sender has gone")))
			require.True(t, apperr.Is(<-done, apperr.CodeHTTP))
			unused(t, b.memory, memorySize)
			unused(t, b.disk, diskSize)
			gone(t, b.dir)
		})
	}
}

// A thousand senders who announce much and send nothing keep no one out.
func TestIdleSendersHoldNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBodyReader(1<<20, 1<<20, 1<<20, t.TempDir())
		in, out := io.Pipe()
		for i := range 1000 {
			go func() { _, _, _ = b.read(arriving(1, []int64{256 << 10, 1 << 20, -1}[i%3], in), 1<<20) }()
		}
		synctest.Wait()
		want := content(400 << 10)
		body, memory, err := b.read(arriving(1, int64(len(want)), bytes.NewReader(want)), 1<<20)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, body))
		memory.release()
		require.NoError(t, out.Close())
	})
}

// A sender that comes when its share of the memory is used up has to come back. Small bodies pass all the same, and all
// bodies do once there is room again.
func TestMemoryRunsOut(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	b := newBodyReader(size, diskSize, 256<<10, t.TempDir())
	read := func(from byte, announced int64, n int) (*lease, error) {
		_, memory, err := b.read(arriving(from, announced, bytes.NewReader(content(n))), largest)
		return memory, err
	}
	var held []*lease
	for from := byte(1); from <= 40; from++ {
		for memory, err := read(from, 5000, 5000); err == nil; memory, err = read(from, 5000, 5000) {
			held = append(held, memory)
		}
	}
	for _, n := range []int{64 << 10, 256 << 10, 1 << 20} {
		for _, announced := range []int64{-1, int64(n)} {
			_, err := read(50, announced, n)
			require.Same(t, errOverloaded, err, "%d bytes", n)
		}
	}
	_, err := read(50, 4<<10, 4<<10)
	require.NoError(t, err)
	require.Less(t, b.memory.free, int64(size/20))
	unused(t, b.disk, diskSize)
	gone(t, b.dir)
	for _, l := range held {
		l.release()
	}
	memory, err := read(50, 256<<10, 256<<10)
	require.NoError(t, err)
	memory.release()
	unused(t, b.memory, size)
}

// Bodies whose last byte is held back, from two senders to one connection, neither use up the memory nor the share of
// their connection: they wait in files. Bodies of another environment are accepted, and those of other senders to the
// same connection, as are those that were held back.
func TestBodiesHeldBackKeepNoOneOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, size = 128, 262_000
		b := newTestReader(t)
		to := func(r *Request, connection string) *Request {
			r.connection, r.environment = connection, id.Environment(connection)
			return r
		}
		ended := make(chan error)
		var back []*io.PipeWriter
		for i := range 2 * each {
			in, out := io.Pipe()
			back = append(back, out)
			go func() {
				_, memory, err := b.read(to(arriving(byte(i%2), size, in), "one"), largest)
				memory.release()
				ended <- err
			}()
			_, err := out.Write(content(size)[:size-1])
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Less(t, memorySize-b.memory.free, int64(memorySize/3))
		for _, connection := range []string{"one", "two"} {
			for range 200 {
				_, memory, err := b.read(to(arriving(3, 20_000, bytes.NewReader(content(20_000))), connection), largest)
				require.NoError(t, err)
				defer memory.release()
			}
		}
		for _, out := range back {
			_, err := out.Write(content(size)[size-1:])
			require.NoError(t, err)
			require.NoError(t, out.Close())
			require.NoError(t, <-ended)
		}
	})
}

// A large body that finds memory used up once it is complete is refused, and leaves neither file nor charge.
func TestMemoryRunsOutForASpooledBody(t *testing.T) {
	t.Parallel()
	b := newBodyReader(1<<20, diskSize, 512<<10, t.TempDir())
	_, memory, err := b.read(arriving(1, 400<<10, bytes.NewReader(content(400<<10))), largest)
	require.NoError(t, err)
	_, _, err = b.read(arriving(2, 1<<20, bytes.NewReader(content(1<<20))), largest)
	require.Same(t, errOverloaded, err)
	memory.release()
	unused(t, b.memory, 1<<20)
	unused(t, b.disk, diskSize)
	gone(t, b.dir)
}

// Bodies on the disk share a budget that is charged as they arrive, and of which one sender has half. A sender that
// finds its share used up has to come back, its file is removed, and there is room again when the others are done.
func TestDiskRunsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size, half = 4 << 20, 2 << 20
		b := newBodyReader(memorySize, size, 1<<20, t.TempDir())
		type sender struct {
			out  *io.PipeWriter
			done chan error
		}
		send := func(from byte, n int) sender {
			in, out := io.Pipe()
			s := sender{out, make(chan error, 1)}
			go func() {
				body, memory, err := b.read(arriving(from, -1, in), half)
				if err == nil && len(body) != n {
					err = io.ErrUnexpectedEOF
				}
				memory.release()
				_ = in.Close() // as the server does: a sender that still sends gets a response
				s.done <- err
			}()
			_, _ = out.Write(content(n)) // a refused sender does not get all of it out
			synctest.Wait()
			return s
		}
		first := send(1, half)
		require.EqualValues(t, half, b.disk.held[source(1)])
		require.Same(t, errOverloaded, <-send(1, half).done, "beyond its half")
		second := send(2, 1<<20)
		require.EqualValues(t, 1<<20, b.disk.free)
		require.Same(t, errOverloaded, <-send(3, 1<<20).done, "beyond what leaves some to the next")
		files, err := os.ReadDir(b.dir)
		require.NoError(t, err)
		require.Len(t, files, 2)
		third := send(3, spoolOver) // needs no disk
		for _, s := range []sender{first, second, third} {
			require.NoError(t, s.out.Close())
			require.NoError(t, <-s.done)
		}
		again := send(3, half)
		require.NoError(t, again.out.Close())
		require.NoError(t, <-again.done)
		unused(t, b.memory, memorySize)
		unused(t, b.disk, size)
		gone(t, b.dir)
	})
}

// The service bounds the bodies waiting on the disk without any configuration.
func TestServiceBoundsTheSpool(t *testing.T) {
	t.Parallel()
	s := New(Config{Options: Options{MaxBodyBytes: 10 << 20, MemoryBudget: 64 << 20}})
	require.EqualValues(t, 2<<30, s.bodies.disk.free)
	require.EqualValues(t, 1<<30, s.bodies.disk.share)
	require.EqualValues(t, 64<<20, s.bodies.memory.free)
	require.False(t, s.bodies.memory.scarce, "the largest body fits into the share of a connection")
	require.EqualValues(t, 32<<20, s.bodies.memory.share)
}

// A body that breaks off is 400 and one that is late is 408, wherever on its way it is; neither is taken for a whole
// one, and neither keeps memory or disk.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	late := &timeoutError{}
	for _, size := range []int{1, 4 << 10, 100 << 10, 256 << 10, 1 << 20} {
		for name, c := range map[string]struct {
			announced int64
			sent      int
			end       error
			want      int
		}{
			"shorter than announced":      {int64(size), size - 1, io.EOF, http.StatusBadRequest},
			"announced, then broken":      {int64(size), size - 1, io.ErrUnexpectedEOF, http.StatusBadRequest},
			"unannounced, then broken":    {-1, size, io.ErrUnexpectedEOF, http.StatusBadRequest},
			"announced, then late":        {int64(size), size - 1, late, http.StatusRequestTimeout},
			"unannounced, then late":      {-1, size, late, http.StatusRequestTimeout},
			"announced, nothing but late": {int64(size), 0, late, http.StatusRequestTimeout},
		} {
			b := newTestReader(t)
			sender := io.MultiReader(bytes.NewReader(content(c.sent)), iotest.ErrReader(c.end))
			_, memory, err := b.read(arriving(1, c.announced, sender), largest)
			require.Nil(t, memory)
			var e *apperr.Error
			require.ErrorAs(t, err, &e, "%s, %d bytes", name, size)
			require.Equal(t, apperr.CodeHTTP, e.Code)
			require.Equal(t, c.want, e.Status, "%s, %d bytes", name, size)
			unused(t, b.memory, memorySize)
			unused(t, b.disk, diskSize)
			gone(t, b.dir)
		}
	}
}

// timeoutError is the error that a connection's read returns once its deadline has passed, wrapped as the net package
// does.
type timeoutError struct{}

func (*timeoutError) Error() string { return "read tcp: " + os.ErrDeadlineExceeded.Error() }
func (*timeoutError) Unwrap() error { return os.ErrDeadlineExceeded }

// When the disk takes no file, or no more of one, the sender has to come back, and the node learns of it. The response
// does not show the path of the file. A body that is too large for its connection is refused all the same, without a
// file.
func TestNoSpoolFolder(t *testing.T) {
	t.Parallel()
	b := newBodyReader(memorySize, diskSize, largest, t.TempDir()+"/missing")
	failures := 0
	b.failed = func() { failures++ }
	_, _, err := b.read(arriving(1, 1<<20, bytes.NewReader(content(1<<20))), largest)
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, apperr.CodeUnavailable, e.Code)
	require.Positive(t, e.RetryAfter)
	require.NotContains(t, e.Message, "missing")
	require.Equal(t, 1, failures)
	full, err := os.Open(os.DevNull) // which takes no writes
	require.NoError(t, err)
	defer func() { require.NoError(t, full.Close()) }()
	file := &spoolFile{f: full, disk: lease{of: b.disk}, failed: b.failed}
	require.True(t, apperr.Is(file.write([]byte("body")), apperr.CodeUnavailable))
	file.disk.release()
	require.Equal(t, 2, failures)
	for _, limit := range []int64{100, 100 << 10, spoolOver} {
		_, _, err = b.read(arriving(1, -1, bytes.NewReader(content(int(limit)+1))), limit)
		require.True(t, apperr.Is(err, apperr.CodePayloadTooLarge), "%v", err)
	}
	unused(t, b.memory, memorySize)
}

// deadlines writes down the deadlines that are set.
type deadlines []time.Time

// SetReadDeadline writes a deadline down.
func (d *deadlines) SetReadDeadline(at time.Time) error {
	*d = append(*d, at)
	return nil
}

// The first 256 KiB of a body have ten seconds and the rest a minute, and no deadline is left once it is there, because
// one that passes later would cancel the request. A body that breaks off keeps its deadline, so that the rest of it is
// not waited for either.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newTestReader(t)
		soon, later := time.Now().Add(10*time.Second), time.Now().Add(time.Minute)
		for _, c := range []struct {
			announced int64
			sent      int
			want      deadlines
		}{
			{0, 0, nil}, {1, 1, deadlines{soon, {}}}, {4 << 10, 4 << 10, deadlines{soon, {}}}, {256 << 10, 256 << 10,
				deadlines{soon, {}}},
			{10, 9, deadlines{soon}}, {100 << 10, 9, deadlines{soon}},
			{256<<10 + 1, 256<<10 + 1, deadlines{soon, later, {}}}, {-1, 10, deadlines{soon, {}}},
			{-1, 300 << 10, deadlines{soon, later, {}}},
		} {
			var got deadlines
			r := arriving(1, c.announced, bytes.NewReader(content(c.sent)))
			r.Deadlines = &got
			_, memory, _ := b.read(r, largest)
			memory.release()
			require.Equal(t, c.want, got, "%d announced, %d sent", c.announced, c.sent)
		}
	})
}
