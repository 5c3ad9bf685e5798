// Package openapi holds what is generated about the API: its OpenAPI document, and the descriptions of the fields in
// it.
package openapi

import _ "embed"

//go:embed descriptions.json
var descriptions []byte

// Descriptions returns descriptions.json: the comments of the fields that the document shows, by the import path of
// their package, their type and their name. The program cannot read its own comments, so openapi/describe copies them.
func Descriptions() []byte { return descriptions }
