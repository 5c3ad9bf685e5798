package verification

// Pointer is a JSON pointer (RFC 6901) into a document of a provider. The zero value names nothing.
type Pointer struct{ pointer pointer }

// ParsePointer reads a pointer. The error is a clause that says what is wrong with it.
func ParsePointer(s string) (Pointer, error) {
	p, err := parsePointer(s)
	return Pointer{pointer: p}, err
}

// Text returns the string, number or boolean that the pointer names: strings unescaped, the others as written. Nothing
// is found in a document that is not valid JSON or that nests too deep, and null, objects and arrays have no text.
func (p Pointer) Text(doc []byte) (string, bool) {
	if len(p.pointer.refs) == 0 {
		return "", false
	}
	return p.pointer.text(doc)
}
