package documents

import (
	"slices"
	"strings"
)

// ServerPaths returns the paths of a document's servers, under which its operations are, without slashes at their
// ends. Names of variables are in braces. Servers without a path are left out.
func ServerPaths(d *Document) []string {
	if d.graphql != nil {
		return nil
	}
	var urls []string
	switch d.Format {
	case Swagger2:
		urls = []string{"/" + strings.TrimLeft(d.root.Get("basePath").String(), "/")}
	case Discovery:
		urls = []string{strings.TrimRight(d.root.Get("rootUrl").String(), "/") + "/" +
			strings.TrimLeft(d.root.Get("servicePath").String(), "/")}
	default:
		urls = d.serverURLs()
	}
	var out []string
	for _, text := range urls {
		if _, rest, found := strings.Cut(text, "://"); found {
			_, path, _ := strings.Cut(rest, "/")
			text = "/" + path
		}
		if text = strings.TrimRight(text, "/"); strings.HasPrefix(text, "/") && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
