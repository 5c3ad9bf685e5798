package httpapi

import (
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
)

const (
	environmentHeader = "Environment-Id"
	environmentQuery  = "environment_id"
)

// addEnvironment adds the environment that the header of a request names to its query, if the operation has the
// parameter, so that cursors and links to further pages contain it. It returns an error if the two differ.
func (op Operation) addEnvironment(r *http.Request) []apperr.Detail {
	named := r.Header.Values(environmentHeader)
	if !op.EnvironmentQuery || len(named) == 0 || len(named) == 1 && named[0] == "" {
		return nil
	}
	if len(named) > 1 {
		return []apperr.Detail{{Location: "header." + environmentHeader, Rule: "single", Message: "send the header once"}}
	}
	values, present := r.URL.Query()[environmentQuery]
	if !present {
		if r.URL.RawQuery != "" {
			r.URL.RawQuery += "&"
		}
		r.URL.RawQuery += environmentQuery + "=" + url.QueryEscape(named[0])
		return nil
	}
	if len(values) == 1 && values[0] != named[0] {
		return []apperr.Detail{{Location: "query." + environmentQuery, Rule: "equal",
			Message: "must be the environment that the header " + environmentHeader + " names"}}
	}
	return nil
}

// environmentParameters documents the header.
func (op Operation) environmentParameters() []*huma.Param {
	if !op.EnvironmentQuery {
		return nil
	}
	return []*huma.Param{{Name: environmentHeader, In: "header",
		Description: "The same as `" + environmentQuery + "`. If both are sent, they must be equal.",
		Schema:      &huma.Schema{Type: huma.TypeString}, Example: "env_06dyxk8z3pk6n5q1v7wc4t2m9r"}}
}
