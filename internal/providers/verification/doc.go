// Package verification proves that a webhook delivery comes from its provider, by a declaration that is data, and
// derives what the delivery says of itself: its type, its id, whether it is a control message.
//
// There is one engine. A provider's definition feeds it a Declaration; Compile checks the declaration, Prepare binds it
// to one connection's parameters and secrets, and the Verifier that results is used for each delivery. Whatever is
// missing, unreadable or ambiguous is refused.
package verification
