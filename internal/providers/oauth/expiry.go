package oauth

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// maxTTL is the longest life that is believed, minTTL the shortest. A token that lives longer has no known end.
const (
	maxTTL = 10 * 365 * 24 * time.Hour
	minTTL = time.Second
)

// maxEpochSeconds is the largest number that counts seconds since 1970, in the year 5138. A larger one counts
// milliseconds, and has done so since 1973.
const maxEpochSeconds = 1e11

// expiry returns when a token expires. A life of less than a second, such as the 0 that some send for tokens that
// never expire, and anything that is no number count as if the response did not say.
func (spec TokenSpec) expiry(doc document, now time.Time) time.Time {
	life := spec.life(doc, now)
	switch {
	case life > maxTTL:
		return time.Time{}
	case life >= minTTL:
		return now.Add(life)
	case spec.DefaultTTL > 0:
		return now.Add(spec.DefaultTTL)
	default:
		return time.Time{}
	}
}

// life returns how long a token lives, or 0 if the response does not say.
func (spec TokenSpec) life(doc document, now time.Time) time.Duration {
	path, absolute := spec.ExpiresIn, false
	if spec.ExpiresAt != "" && doc.at(spec.ExpiresAt) != nil {
		path, absolute = spec.ExpiresAt, true
	}
	text, _ := doc.text(path)
	text = strings.TrimSpace(text)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Sub(now)
		}
	}
	number, err := strconv.ParseFloat(text, 64)
	if math.IsInf(number, 1) {
		return maxTTL + 1
	}
	if err != nil || math.IsNaN(number) {
		return 0
	}
	switch {
	case absolute && number > maxEpochSeconds:
		number = (number - float64(now.UnixMilli())) / 1000
	case absolute:
		number -= float64(now.UnixMilli()) / 1000
	case spec.Unit > 0:
		number *= spec.Unit.Seconds()
	}
	if number > maxTTL.Seconds() {
		return maxTTL + 1
	}
	return time.Duration(max(number, 0) * float64(time.Second))
}
