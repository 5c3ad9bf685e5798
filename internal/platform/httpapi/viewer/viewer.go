// Package viewer has the files of the API's reference page: Scalar, the viewer, and the few that start it.
package viewer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// PagePath is the path of the reference page.
const PagePath = "/docs"

// bundle is the viewer's script, which is embedded in its compressed form only.
const bundle = "scalar.js"

//go:embed page.html keep.js start.js style.css scalar.js.gz LICENSE.scalar vendored.json
var files embed.FS

// File is one file of the page.
type File struct {
	// Path is its path on the server.
	Path string
	// ContentType is its media type.
	ContentType string
	// Compressed is its content in the gzip format.
	Compressed []byte
	// Immutable says that the path changes with the content, so that a browser may keep the file.
	Immutable bool
}

// vendored describes the viewer that this package includes; .ci/viewer writes it.
type vendored struct {
	// Package and Version are those of npm, and File is the file of the package.
	Package string `json:"package"`
	Version string `json:"version"`
	File    string `json:"file"`
	// SHA256 is the digest of the file as the package has it.
	SHA256  string `json:"sha256"`
	License string `json:"license"`
	// Replaced is the only change to it.
	Replaced struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"replaced"`
}

// included returns the description of the included viewer.
func included() (v vendored, err error) {
	text, err := files.ReadFile("vendored.json")
	if err != nil {
		return v, fmt.Errorf("read the description of the viewer: %w", err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("read the description of the viewer: %w", err)
	}
	return v, nil
}

// Files returns the page and the files that it loads.
func Files() ([]File, error) {
	v, err := included()
	if err != nil {
		return nil, err
	}
	script, err := files.ReadFile(bundle + ".gz")
	if err != nil {
		return nil, fmt.Errorf("read the viewer: %w", err)
	}
	digest := sha256.Sum256(script)
	path := PagePath + "/scalar-" + v.Version + "-" + hex.EncodeToString(digest[:4]) + ".js"
	list := []File{{Path: path, ContentType: javaScript, Compressed: script, Immutable: true}}
	places := []string{"{{" + bundle + "}}", path, "{{version}}", v.Version}
	for name, contentType := range map[string]string{"keep.js": javaScript, "start.js": javaScript,
		"style.css": "text/css; charset=utf-8", "LICENSE.scalar": "text/plain; charset=utf-8"} {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		digest := sha256.Sum256(content)
		base, extension, _ := strings.Cut(name, ".")
		path := PagePath + "/" + base + "-" + hex.EncodeToString(digest[:4]) + "." + extension
		list = append(list, newFile(path, contentType, content, true))
		places = append(places, "{{"+name+"}}", path)
	}
	page, err := files.ReadFile("page.html")
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	text := strings.NewReplacer(places...).Replace(string(page))
	return append(list, newFile(PagePath, "text/html; charset=utf-8", []byte(text), false)), nil
}

const javaScript = "text/javascript; charset=utf-8"

func newFile(path, contentType string, content []byte, immutable bool) File {
	return File{Path: path, ContentType: contentType, Compressed: Compress(content), Immutable: immutable}
}

// Compress returns content in the gzip format.
func Compress(content []byte) []byte {
	var b bytes.Buffer
	// The level is one of those that exist, and a buffer accepts everything.
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(content)
	_ = w.Close()
	return b.Bytes()
}

// Content returns the file without compression.
func (f File) Content() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(f.Compressed))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	return b, nil
}
