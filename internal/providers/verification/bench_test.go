package verification_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sallyport/internal/providers/verification"
)

func benchmarkVerify(b *testing.B, d verification.Declaration, r *verification.Request, keys ...string) {
	b.Helper()
	v := verifier(b, d, keys...)
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := v.Verify(b.Context(), r); refusal != nil {
			b.Fatal(refusal)
		}
	}
}

func kilobyte() string {
	return `{"type":"issue.created","id":"evt_1","data":"` + strings.Repeat("x", 1024-46) + `"}`
}

func BenchmarkVerify(b *testing.B) {
	body := kilobyte()
	ts := stamp(time.Second)
	b.Run("body", func(b *testing.B) {
		benchmarkVerify(b, bodyOnly(), request(body, "X-Signature", "sha256="+hexMAC(testKey, body), "X-Delivery", "d"),
			testKey)
	})
	b.Run("list", func(b *testing.B) { benchmarkVerify(b, listed(), signedList("msg_1", ts, body), testKey) })
	b.Run("pairs", func(b *testing.B) {
		benchmarkVerify(b, paired(), request(body, "X-Signature", "t="+ts+",v1="+hexMAC(testKey, ts+"."+body)), testKey)
	})
	b.Run("rotating", func(b *testing.B) {
		benchmarkVerify(b, listed(), signedList("msg_1", ts, body), "other secret", testKey)
	})
}

func BenchmarkDescribe(b *testing.B) {
	v := verifier(b, paired(), testKey)
	r := request(kilobyte())
	b.ReportAllocs()
	for b.Loop() {
		if describe(b, v, r).ID == "" {
			b.Fatal("no id")
		}
	}
}

// BenchmarkDescribeBatch describes the largest batch: 100,000 items of 1,000 types.
func BenchmarkDescribeBatch(b *testing.B) {
	v := verifier(b, batched("/*", "{item:/type}"), testKey)
	var list []byte
	for i := range 100_000 {
		list = fmt.Appendf(list, `,{"type":"contact.changed.%d","id":%d,"name":"%s"}`, i%1000, i, strings.Repeat("x", 100))
	}
	r := request("[" + string(list[1:]) + "]")
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	for b.Loop() {
		if len(describe(b, v, r).Types) != 1000 {
			b.Fatal("not all types")
		}
	}
}

func BenchmarkIsJSON(b *testing.B) {
	text := []byte(kilobyte())
	for name, valid := range map[string]func([]byte) bool{"own": verification.IsJSON, "encoding": json.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if !valid(text) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
