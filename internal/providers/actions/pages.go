package actions

import "sallyport/internal/platform/httpapi/oas"

// PageType is how a provider continues a list.
type PageType string

// The types. PagesByLink follows the header Link (RFC 8288), PagesByBodyLink a URL in the response. PagesByCursor sends
// a value of the response, PagesByOffset the number of items so far, and PagesByNumber the number of the page.
const (
	PagesByLink     PageType = "link"
	PagesByBodyLink PageType = "body_link"
	PagesByCursor   PageType = "cursor"
	PagesByOffset   PageType = "offset"
	PagesByNumber   PageType = "page"
)

// Schema returns the schema with the types, for the API.
func (PageType) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]PageType{PagesByLink, PagesByBodyLink, PagesByCursor, PagesByOffset, PagesByNumber})
}

// Pagination says how the list that an action returns is continued.
type Pagination struct {
	Type PageType `json:"type"`
	// Items is a JSON pointer (RFC 6901) to the items in a response; empty if the response is the list.
	Items string `json:"items"`
	// Parameter is the property of the input that asks for the next page: a cursor, an offset or a number. It is empty
	// for links.
	Parameter string `json:"parameter,omitempty"`
	// Size is the property of the input with the number of items of a page; empty if there is none.
	Size string `json:"size,omitempty"`
	// MaxSize is the greatest value of Size; 0 if it is not known.
	MaxSize int `json:"max_size,omitempty"`
	// Next is a JSON pointer to the cursor or the URL of the next page; the list ends where it is absent, null or empty.
	// It may be empty for other types.
	Next string `json:"next,omitempty"`
	// NextOfLast is true if the next cursor is Next within the last item, as in lists whose cursor is the id of an item.
	NextOfLast bool `json:"next_of_last,omitempty"`
	// More is a JSON pointer to a boolean that is false on the last page; empty if there is none.
	More string `json:"more,omitempty"`
	// First is the number of the first page, for pages by number.
	First int `json:"first,omitempty"`
}

// Idempotency says how a provider recognises a call that it has had.
type Idempotency struct {
	// Header is the name of the request header that takes a key.
	Header string `json:"header"`
}
