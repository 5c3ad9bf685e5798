package httpapi

import (
	"mime"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// mergePatch is the media type of a JSON merge patch (RFC 7396), which the body of every PATCH is.
const mergePatch = "application/merge-patch+json"

// acceptMergePatch takes a merge patch that is declared as one for JSON, which Huma reads.
func acceptMergePatch(r *http.Request) {
	if r.Method != http.MethodPatch {
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == mergePatch {
		r.Header.Set("Content-Type", "application/json")
	}
}

// documentMergePatch adds the media type to the document.
func documentMergePatch(op *huma.Operation) {
	if op.Method == http.MethodPatch {
		op.RequestBody.Content[mergePatch] = op.RequestBody.Content["application/json"]
	}
}

// wrongMediaType is the message of an error about the media type of a body.
func wrongMediaType(method string) string {
	message := "Send the body with Content-Type: application/json"
	if method == http.MethodPatch {
		message += " or " + mergePatch
	}
	return message
}
