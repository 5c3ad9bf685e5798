package documents_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/longtext"
	"sallyport/internal/providers/documents"
)

// A long document is read with a part of its size in memory, and has the same actions as one that is there as a whole.
func TestMemoryOfALongDocument(t *testing.T) { //nolint:paralleltest // it measures the heap
	const operations = 5_000
	long := new(longtext.Text)
	whole := new(strings.Builder)
	write := io.MultiWriter(long, whole)
	_, _ = io.WriteString(write, `{"openapi":"3.0.0","components":{"schemas":{"a":{"properties":{"b":{"$ref":`+
		`"#/components/schemas/b"}}},"b":{"type":"object","properties":{"name":{"type":"string"}}}}},"paths":{`)
	text := strings.Repeat("Words that say what the parameter is for. ", 100)
	for i := range operations {
		_, _ = fmt.Fprintf(write, `%s"/things/%d":{"get":{"operationId":"get_%d","description":"%s","parameters":[`+
			`{"name":"a","in":"query","schema":{"type":"integer"}}],"responses":{"200":{"content":{"application/json":`+
			`{"schema":{"$ref":"#/components/schemas/a"}}}}}}}`, strings.Repeat(",", min(i, 1)), i, i, text)
	}
	_, _ = io.WriteString(write, "}}")
	want, err := documents.Open([]byte(whole.String()))
	require.NoError(t, err)
	require.Greater(t, whole.Len(), 20<<20)
	encoded := func(d *documents.Document, last func()) (all []string) {
		list, err := d.Operations()
		require.NoError(t, err)
		for r := range list {
			require.Nil(t, r.Left)
			if len(all) == operations-1 {
				last()
			}
			action, err := r.Action.Encode()
			require.NoError(t, err)
			all = append(all, string(action[:min(len(action), 40)])+fmt.Sprint(len(action)))
		}
		return all
	}
	all := encoded(want, func() {})

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, err := documents.OpenAny(long)
	require.NoError(t, err)
	require.Equal(t, all, encoded(got, func() {
		runtime.GC()
		runtime.ReadMemStats(&after)
	}))
	// 8 MiB of the text were there before.
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(16<<20))
	runtime.KeepAlive(long)
}
