// Package verification checks a webhook request against a declared signature scheme and derives its event type, id and
// kind.
//
// There is one engine. A provider's definition contains a Declaration; Compile checks the declaration, Bind binds it
// to one connection's parameters and secrets, and the resulting Verifier checks each request. It rejects a request with
// missing, unreadable or ambiguous parts.
package verification
