package registry

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Evidence is the source of the facts in a definition's webhooks section.
type Evidence struct {
	// Grade is vector or documented.
	Grade Grade `yaml:"grade"`
	// Source names, in one line, the basis of the grade: the vector, or the page of the documentation.
	Source string `yaml:"source"`
	// URL is the address of the source; https.
	URL string `yaml:"url"`
	// LeftOut lists, one per line, the facts that none of the provider's own sources confirmed and that the definition
	// therefore leaves out.
	LeftOut []string `yaml:"left_out"`
}

// Grade is the strength of the evidence for a definition's webhooks section.
type Grade string

const (
	// GradeVector is a test that verifies a webhook whose signature the provider published, or its own SDK made or
	// accepted.
	GradeVector Grade = "vector"
	// GradeDocumented is a test that verifies a webhook made by hand from the provider's documentation.
	GradeDocumented Grade = "documented"
)

// grades returns every grade, the best first.
func grades() []Grade { return []Grade{GradeVector, GradeDocumented} }

const (
	maxEvidenceText = 300
	maxLeftOut      = 32
)

// check reports what is wrong with the evidence.
func (e *Evidence) check(wrong report) {
	if !slices.Contains(grades(), e.Grade) {
		wrong("evidence.grade", "must be vector or documented")
	}
	const line = "must be one line of 1 to 300 characters without spaces around it"
	if !isLine(e.Source) {
		wrong("evidence.source", line)
	}
	if !isHTTPS(e.URL) {
		wrong("evidence.url", "must be an https URL")
	}
	if len(e.LeftOut) > maxLeftOut {
		wrong("evidence.left_out", "has more than 32 entries")
		return
	}
	for i, text := range e.LeftOut {
		field := "evidence.left_out[" + strconv.Itoa(i) + "]"
		switch {
		case !isLine(text):
			wrong(field, line)
		case slices.Index(e.LeftOut, text) != i:
			wrong(field, "is listed twice")
		}
	}
}

// isLine reports whether s fits a cell of a table.
func isLine(s string) bool {
	return s != "" && strings.TrimSpace(s) == s && utf8.RuneCountInString(s) <= maxEvidenceText &&
		!strings.ContainsFunc(s, func(r rune) bool {
			return !unicode.IsPrint(r)
		})
}

func isHTTPS(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}
