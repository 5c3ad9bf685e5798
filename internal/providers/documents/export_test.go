package documents

import "sallyport/internal/platform/jsonindex"

// DraftOf makes a draft of a document in any format, whether it can be opened or not.
func DraftOf(text []byte, o DraftOptions) (*Draft, error) {
	x, err := jsonindex.Parse(text, maxDepth)
	if err != nil {
		return nil, err
	}
	return (&Document{root: x.Root()}).Draft(o)
}
