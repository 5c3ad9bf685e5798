package httpapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/httpapi/viewer"
)

// docsCSP lets the viewer load from this origin and send requests to it only. The viewer sets style attributes, which
// neither a hash nor a nonce can allow, and draws icons from data URLs.
const docsCSP = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const (
	// revalidate lets a browser keep a file and ask each time whether it has changed.
	revalidate = "public, no-cache"
	// keepForever is for files whose path changes with their content.
	keepForever = "public, max-age=31536000, immutable"
)

func (a *API) mountDocs() {
	document := sync.OnceValues(func() (*static, error) {
		text, err := a.Document()
		if err != nil {
			return nil, err
		}
		return newStatic("application/json", revalidate, viewer.Compress(text), func() ([]byte, error) { return text, nil }),
			nil
	})
	a.handle("GET /openapi.json", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := document()
		if err != nil {
			WriteError(w, r, err)
			return
		}
		s.ServeHTTP(w, r)
	}))
	files, err := viewer.Files()
	if err != nil {
		panic(err) // they are embedded
	}
	for _, pattern := range []string{"GET /{$}", "GET " + viewer.PagePath + "/{$}"} {
		a.handle(pattern, http.RedirectHandler(viewer.PagePath, http.StatusFound))
	}
	for _, f := range files {
		cache := revalidate
		if f.Immutable {
			cache = keepForever
		}
		s := newStatic(f.ContentType, cache, f.Compressed, sync.OnceValues(f.Content))
		a.handle("GET "+f.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			header := w.Header()
			header.Set("Content-Security-Policy", docsCSP)
			header.Set("Referrer-Policy", "no-referrer")
			header.Set("Cross-Origin-Opener-Policy", "same-origin")
			s.ServeHTTP(w, r)
		}))
	}
}

// static serves a file that does not change while the process runs, compressed to clients that accept it.
type static struct {
	contentType, cache, digest string
	compressed                 []byte
	// plain returns the content for clients that do not accept the compressed one.
	plain func() ([]byte, error)
}

func newStatic(contentType, cache string, compressed []byte, plain func() ([]byte, error)) *static {
	digest := sha256.Sum256(compressed)
	return &static{contentType, cache, hex.EncodeToString(digest[:16]), compressed, plain}
}

// ServeHTTP responds to GET and HEAD.
func (s *static) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", s.cache)
	header.Set("Vary", "Accept-Encoding")
	content, tag := s.compressed, `"`+s.digest+`-gzip"` // each encoding has a tag of its own (RFC 9110 section 8.8.3.3)
	if !acceptsGzip(r.Header.Values("Accept-Encoding")) {
		var err error
		if content, err = s.plain(); err != nil {
			WriteError(w, r, err)
			return
		}
		tag = `"` + s.digest + `"`
	}
	header.Set("ETag", tag)
	if hasTag(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if tag != `"`+s.digest+`"` {
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Type", s.contentType)
	header.Set("Content-Length", fmt.Sprint(len(content)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // the client is gone when this fails
	}
}

// Document returns the OpenAPI document, indented and in a stable order.
func (a *API) Document() ([]byte, error) {
	if err := a.describe(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(a.huma.OpenAPI())
	if err == nil {
		raw, err = orderMethods(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("indent the OpenAPI document: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// orderMethods puts the operations of each path of a document into the order in which a reader needs them. The viewer
// keeps it, and the order of a Go map would show how to delete something before how to get it.
func orderMethods(document []byte) ([]byte, error) {
	var root map[string]json.RawMessage
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, err
	}
	var paths map[string]map[string]json.RawMessage
	if err := json.Unmarshal(root["paths"], &paths); err != nil {
		return nil, err
	}
	ordered := map[string]json.RawMessage{}
	for path, item := range paths {
		names := slices.SortedFunc(maps.Keys(item), func(a, b string) int {
			return cmp.Or(cmp.Compare(methodRank(a), methodRank(b)), cmp.Compare(a, b))
		})
		var b bytes.Buffer
		for i, name := range names {
			b.WriteByte("{,"[min(i, 1)])
			b.WriteString(strconv.Quote(name) + ":")
			b.Write(item[name])
		}
		b.WriteByte('}')
		ordered[path] = b.Bytes()
	}
	text, err := json.Marshal(ordered)
	if err != nil {
		return nil, err
	}
	root["paths"] = text
	return json.Marshal(root)
}

// methodRank returns the place of a method in a path of the document; members that are no methods come first.
func methodRank(name string) int {
	return slices.Index([]string{"get", "head", "options", "put", "patch", "post", "delete"}, name)
}

// jsonFormat returns JSON without HTML escaping.
func jsonFormat() huma.Format { return huma.DefaultJSONFormat }
