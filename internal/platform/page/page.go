// Package page implements the paging of all lists: an array, newest first by default, with the next page in Link and
// X-Next-Cursor.
package page

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"

	"sallyport/internal/platform/apperr"
)

// Limits of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 250
)

// cursorVersion is the first byte of a cursor, so that later forms can be distinguished.
const cursorVersion = 1

const digestLength = 8

// maxCursor limits the length of a cursor. No valid cursor is longer.
const maxCursor = 512

// Query is embedded into the input of every list operation.
type Query struct {
	// The maximum number of rows on a page. Default 50.
	Limit int `query:"limit" minimum:"1" maximum:"250" default:"50"`
	// The position of the page: the `X-Next-Cursor` of the previous page, with the same filters.
	Cursor string `query:"cursor" maxLength:"512"`
	// `desc` (default): newest first. `asc`: oldest first.
	Order string `query:"order" enum:"asc,desc" default:"desc"`
}

// AscendingQuery is embedded instead of Query into the input of a list whose rows are ordered by name.
type AscendingQuery struct {
	// The maximum number of rows on a page. Default 50.
	Limit int `query:"limit" minimum:"1" maximum:"250" default:"50"`
	// The position of the page: the `X-Next-Cursor` of the previous page, with the same filters.
	Cursor string `query:"cursor" maxLength:"512"`
	// `asc` (default): in order. `desc`: the last first.
	Order string `query:"order" enum:"asc,desc" default:"asc"`
}

// Parse is that of a Query.
func (q AscendingQuery) Parse(scope string, valid func(key string) bool) (Request, error) {
	return Query{Limit: q.Limit, Cursor: q.Cursor, Order: cmp.Or(q.Order, "asc")}.Parse(scope, valid)
}

// Request is a checked Query.
type Request struct {
	Limit int
	// After is the key of the last row of the previous page; empty on the first page.
	After string
	// Ascending lists oldest first.
	Ascending bool
	scope     string
}

// Parse checks the query. scope identifies the list that a cursor belongs to, by its environment and filters. valid
// reports whether a key can belong to the list. A cursor of another list or with other filters is a validation error;
// the request is then that of the first page.
func (q Query) Parse(scope string, valid func(key string) bool) (Request, error) {
	r := Request{Limit: q.Limit, Ascending: q.Order == "asc", scope: scope + "\x00" + q.Order}
	if r.Limit == 0 {
		r.Limit = DefaultLimit
	}
	if q.Cursor == "" {
		return r, nil
	}
	key, ok := decode(q.Cursor, r.scope)
	if !ok || !valid(key) {
		return r, apperr.Invalid(apperr.Detail{Location: "query.cursor", Rule: "cursor",
			Message: "the cursor is not from this list with these filters"})
	}
	r.After = key
	return r, nil
}

// Fetch returns the number of rows to read: one more than the page, to find out whether another page follows.
func (r Request) Fetch() int { return r.Limit + 1 }

// Compare returns the SQL operator that compares a row's key with After.
func (r Request) Compare() string {
	if r.Ascending {
		return ">"
	}
	return "<"
}

// CompareThrough returns the SQL operator that compares a row's key with the last key of a part of the list.
func (r Request) CompareThrough() string {
	if r.Ascending {
		return "<="
	}
	return ">="
}

// Direction returns the direction of ORDER BY.
func (r Request) Direction() string {
	if r.Ascending {
		return "ASC"
	}
	return "DESC"
}

// Headers is embedded into the output of every list operation.
type Headers struct {
	// The next page as `rel="next"`; absent on the last page.
	Link string `header:"Link"`
	// The cursor of the next page; absent on the last page.
	NextCursor string `header:"X-Next-Cursor"`
}

// Cut trims rows that were read with Fetch to most rows, the limit of the request or less, and returns the headers of
// the page. The next page has the same limit. If the list was not read to its end although there are fewer rows, place
// is the key up to which it was read; otherwise place is empty.
func Cut[T any](r Request, rows []T, most int, place string, key func(row *T) string,
	request *url.URL) ([]T, Headers) {
	if len(rows) > most {
		rows = rows[:most]
		place = key(&rows[len(rows)-1])
	}
	if place == "" {
		return rows, Headers{}
	}
	cursor := encode(place, r.scope)
	next := request.Query()
	next.Set("cursor", cursor)
	next.Set("limit", strconv.Itoa(r.Limit))
	return rows, Headers{Link: "<" + request.Path + "?" + next.Encode() + `>; rel="next"`, NextCursor: cursor}
}

func encode(key, scope string) string {
	sum := sha256.Sum256([]byte(scope))
	b := append([]byte{cursorVersion}, sum[:digestLength]...)
	return base64.RawURLEncoding.EncodeToString(append(b, key...))
}

func decode(cursor, scope string) (key string, ok bool) {
	if len(cursor) > maxCursor {
		return "", false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) <= 1+digestLength || b[0] != cursorVersion {
		return "", false
	}
	sum := sha256.Sum256([]byte(scope))
	if string(b[1:1+digestLength]) != string(sum[:digestLength]) {
		return "", false
	}
	return string(b[1+digestLength:]), true
}
