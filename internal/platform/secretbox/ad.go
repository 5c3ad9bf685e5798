package secretbox

import (
	"encoding/binary"
	"fmt"
)

// AD is the place of a sealed value: its associated data. It is authenticated with the ciphertext but not stored in it,
// so a ciphertext opens only in the place it was sealed for. All fields are required.
type AD struct {
	// Table and Column name the column that stores the ciphertext.
	Table, Column string
	// RowID is the row's primary key, or the value of Column.IDColumn for Reseal.
	RowID string
}

// encode joins the fields, each after its length in four bytes. Unlike a separator, this gives different bytes for
// different ADs.
func (a AD) encode() ([]byte, error) {
	if a.Table == "" || a.Column == "" || a.RowID == "" {
		return nil, fmt.Errorf("secretbox: %s: %w", a.place(), ErrAD)
	}
	b := make([]byte, 0, 12+len(a.Table)+len(a.Column)+len(a.RowID))
	for _, s := range [...]string{a.Table, a.Column, a.RowID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // a name or an id is far below 4 GiB
		b = append(b, s...)
	}
	return b, nil
}

// place names the column for error messages.
func (a AD) place() string { return a.Table + "." + a.Column }
