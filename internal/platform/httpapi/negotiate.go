package httpapi

import (
	"strconv"
	"strings"
)

// acceptsGzip reports whether a client accepts the encoding gzip, by the values of its Accept-Encoding (RFC 9110
// section 12.5.3). A weight that is no number rejects.
func acceptsGzip(values []string) bool {
	named, accepted, others := false, false, false
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			coding, parameters, _ := strings.Cut(item, ";")
			ok := weight(parameters) > 0
			switch strings.ToLower(strings.TrimSpace(coding)) {
			case "gzip", "x-gzip":
				named, accepted = true, accepted || ok
			case "*":
				others = others || ok
			}
		}
	}
	return accepted || others && !named
}

// weight returns the weight that parameters state, and 1 if they state none.
func weight(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return 0
			}
			return q
		}
	}
	return 1
}

// hasTag reports whether the values of If-None-Match name an entity tag (RFC 9110 section 13.1.2). The comparison is
// the weak one. Our tags contain no comma, so that the lists can be split there.
func hasTag(values []string, tag string) bool {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			item = strings.TrimSpace(item)
			if item == "*" || strings.TrimPrefix(item, "W/") == tag {
				return true
			}
		}
	}
	return false
}
