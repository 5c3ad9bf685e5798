package jsonindex

import "sallyport/internal/platform/longtext"

// ParseShut is ParseLong of a short text that is treated as a long one: of the values at a depth, no children are
// noted.
func ParseShut(text *longtext.Text, depth, shut int) (*Index, error) {
	return parse(text, depth, shut, 0)
}
