// Package secretbox encrypts secrets at rest with AES-256-GCM under Tink keysets. Every ciphertext names its key and is
// bound to its place (table, column, row), so that it cannot be moved. Secret is the string type that never prints its
// value.
package secretbox

import "errors"

// Errors for errors.Is. None of them contains key material or plaintext.
var (
	// ErrExists: Create found a file at the path.
	ErrExists = errors.New("a keyset file already exists")
	// ErrKeyset: the keyset is empty or unreadable, is not AES-256-GCM, or has a key that is not random.
	ErrKeyset = errors.New("not a usable keyset")
	// ErrPermissions: the keyset file can be read by the group or by others.
	ErrPermissions = errors.New("the keyset file is readable by group or others")
	// ErrUnknownKey: the ciphertext names a key that is not in the keyset.
	ErrUnknownKey = errors.New("ciphertext of an unknown key")
	// ErrNoKey: the keyset has no key with that id.
	ErrNoKey = errors.New("the keyset has no such key")
	// ErrPrimary: the key is the one that seals.
	ErrPrimary = errors.New("the key encrypts, so it cannot be removed; rotate first")
	// ErrDecrypt: the ciphertext is damaged, or it belongs to another table, column or row.
	ErrDecrypt = errors.New("the ciphertext is damaged or belongs to another place")
	// errUndeclared means that no module declares the column as sealed.
	errUndeclared = errors.New("the column is not declared as sealed")
	// ErrAD: a field of AD is empty.
	ErrAD = errors.New("associated data is incomplete")
)
