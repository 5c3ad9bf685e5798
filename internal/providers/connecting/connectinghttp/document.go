package connectinghttp

import (
	"crypto/sha256"
	_ "embed" // the pages
	"encoding/base64"
)

// style is the only style of the pages. Its colours have a contrast of at least 4.5 to 1 (WCAG 2.2, 1.4.3).
//
//go:embed style.css
var style string

// document is the template of every page. None has a script.
//
//go:embed page.html
var document string

// contentSecurityPolicy permits the style, and forms to this origin.
func contentSecurityPolicy() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action " +
		"'self'; frame-ancestors 'none'; base-uri 'none'"
}
