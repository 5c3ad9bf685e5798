package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	// link is the target of an inline link or image, without its title.
	link = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	// reference is the target of a reference definition.
	reference = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s+<?([^\s>]+)>?`)
	// scheme begins a target outside the repository.
	scheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	// anchor is an explicit one.
	anchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	inCode = regexp.MustCompile("`[^`]*`")
	// codePath is a path in code.
	codePath = regexp.MustCompile(
		"`((?:\\.ci|cmd|definitions|deploy|docs|internal|migrations|openapi|tools)/[\\w./-]*)`")
)

// BrokenLinks returns one line for each relative link in a Markdown file that leads to no file or folder of the
// repository, or to no heading of a Markdown file, and for each path in backticks that does not exist.
func BrokenLinks(files []File) []string {
	paths, anchors := map[string]bool{".": true}, map[string][]string{}
	for _, f := range files {
		for p := f.Path; p != "."; p = path.Dir(p) {
			paths[p] = true
		}
		if strings.HasSuffix(f.Path, ".md") {
			anchors[f.Path] = anchorsOf(f.Text)
		}
	}
	var lines []string
	for _, f := range files {
		if !strings.HasSuffix(f.Path, ".md") {
			continue
		}
		for number, text := range proseLines(f.Text) {
			for _, match := range codePath.FindAllStringSubmatch(text, -1) {
				if !paths[path.Clean(match[1])] && !paths[path.Join(path.Dir(f.Path), match[1])] {
					lines = append(lines, fmt.Sprintf("%s:%d names %s, which does not exist", f.Path, number, match[1]))
				}
			}
			for _, target := range targets(text) {
				file, fragment, _ := strings.Cut(target, "#")
				to := f.Path
				if file != "" {
					to = path.Join(path.Dir(f.Path), file)
				}
				switch known, isMarkdown := anchors[to]; {
				case !paths[to]:
					lines = append(lines, fmt.Sprintf("%s:%d links to %s, which does not exist", f.Path, number, target))
				case isMarkdown && fragment != "" && !slices.Contains(known, fragment):
					lines = append(lines, fmt.Sprintf("%s:%d links to %s, whose heading does not exist", f.Path, number, target))
				}
			}
		}
	}
	return lines
}

// targets returns the relative targets of the links in a line.
func targets(text string) []string {
	var found []string
	text = inCode.ReplaceAllString(text, "``")
	for _, match := range slices.Concat(link.FindAllStringSubmatch(text, -1), reference.FindAllStringSubmatch(text, -1)) {
		if !scheme.MatchString(match[1]) && !strings.HasPrefix(match[1], "/") {
			found = append(found, match[1])
		}
	}
	return found
}

// proseLines iterates over the numbered lines of a Markdown text outside fenced code.
func proseLines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		fence := ""
		for i, line := range strings.Split(text, "\n") {
			trimmed := strings.TrimSpace(line)
			switch {
			case fence != "":
				if strings.HasPrefix(trimmed, fence) {
					fence = ""
				}
			case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
				fence = trimmed[:3]
			default:
				if !yield(i+1, line) {
					return
				}
			}
		}
	}
}

// anchorsOf returns the anchors of a Markdown text, as GitHub names them after headings.
func anchorsOf(text string) []string {
	var anchors []string
	count := map[string]int{}
	for _, line := range proseLines(text) {
		for _, match := range anchor.FindAllStringSubmatch(line, -1) {
			anchors = append(anchors, match[1])
		}
		title := strings.TrimLeft(line, "#")
		level := len(line) - len(title)
		if level == 0 || level > 6 || !strings.HasPrefix(title, " ") {
			continue
		}
		slug := slugOf(title)
		if n := count[slug]; n > 0 {
			anchors = append(anchors, fmt.Sprintf("%s-%d", slug, n))
		} else {
			anchors = append(anchors, slug)
		}
		count[slug]++
	}
	return anchors
}

// slugOf returns a heading in lower case with hyphens for blanks, without markup and punctuation.
func slugOf(title string) string {
	title = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(title, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(title))
}
