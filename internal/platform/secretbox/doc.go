// Package secretbox keeps secrets unreadable at rest: AES-256-GCM under Tink keysets, with the key id in every
// ciphertext and the place of the value (table, column, row) bound to it, so that a ciphertext cannot be moved to
// another place. It also holds Secret, the string type that never prints itself.
package secretbox

import "errors"

// Errors that callers tell apart with errors.Is. None of them carries key material or plaintext.
var (
	// ErrExists: Create found a file at the path.
	ErrExists = errors.New("a keyset file exists already")
	// ErrKeyset: the keyset is empty, unreadable, of another type than AES-256-GCM, or its key is not random.
	ErrKeyset = errors.New("not a usable keyset")
	// ErrPermissions: the keyset file can be read by the group or by others.
	ErrPermissions = errors.New("the keyset file is readable by group or others")
	// ErrUnknownKey: the ciphertext names a key that the keyset does not hold.
	ErrUnknownKey = errors.New("ciphertext of an unknown key")
	// ErrDecrypt: the ciphertext is damaged, or it belongs to another table, column or row.
	ErrDecrypt = errors.New("ciphertext does not open here")
	// errUndeclared means that no module declares the column as sealed.
	errUndeclared = errors.New("the column is not declared as sealed")
	// ErrAD: a field of AD is empty.
	ErrAD = errors.New("associated data is incomplete")
)
