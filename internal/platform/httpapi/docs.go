package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	swaggerFiles "github.com/swaggo/files/v2"
)

// docsCSP lets the viewer load from this origin only. Swagger UI sets inline styles and loads icons from data URLs.
const docsCSP = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const docsPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Sallyport API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`

const docsScript = `window.ui = SwaggerUIBundle({url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true, ` +
	`validatorUrl: null});
`

func (a *API) mountDocs() {
	document := sync.OnceValues(a.Document)
	a.handle("GET /openapi.json", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, err := document()
		if err != nil {
			WriteError(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(doc) // the client is gone when this fails
	}))
	page := func(contentType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Content-Security-Policy", docsCSP)
			_, _ = w.Write([]byte(text)) // the client is gone when this fails
		}
	}
	a.handle("GET /docs", page("text/html; charset=utf-8", docsPage))
	a.handle("GET /docs/start.js", page("text/javascript; charset=utf-8", docsScript))
	for name, contentType := range map[string]string{
		"swagger-ui.css":       "text/css; charset=utf-8",
		"swagger-ui-bundle.js": "text/javascript; charset=utf-8",
	} {
		a.handle("GET /docs/"+name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := fs.ReadFile(swaggerFiles.FS, name)
			if err != nil {
				WriteError(w, r, fmt.Errorf("read the docs viewer: %w", err))
				return
			}
			page(contentType, string(b))(w, r)
		}))
	}
}

// Document returns the OpenAPI document, indented and in a stable order.
func (a *API) Document() ([]byte, error) {
	if err := a.describe(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(a.huma.OpenAPI())
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

// jsonFormat returns JSON without HTML escaping.
func jsonFormat() huma.Format { return huma.DefaultJSONFormat }
