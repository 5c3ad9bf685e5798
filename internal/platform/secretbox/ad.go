package secretbox

import (
	"encoding/binary"
	"fmt"
)

// AD is the place of a sealed value. It is authenticated with the ciphertext and not stored in it: a ciphertext opens
// only under the AD it was sealed under. All three fields are mandatory.
type AD struct {
	// Table and Column name the column that stores the ciphertext.
	Table, Column string
	// RowID is the row's primary key, or the value of Column.IDColumn where Reseal is to find the row.
	RowID string
}

// encode joins the fields, each after its length in four bytes: two different ADs never give the same bytes, which a
// separator could not promise.
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
