package main

import "sallyport/internal/reference"

type openapiCommand struct {
	ErrorCodes  bool `help:"Print the reference of the error codes instead." xor:"reference"`
	Permissions bool `help:"Print the reference of permissions and roles instead." xor:"reference"`
}

func (openapiCommand) unconfigured() {}

// Run prints the document.
func (c openapiCommand) Run(e *env) error {
	if c.ErrorCodes {
		return reference.ErrorCodes(e.stdout)
	}
	if c.Permissions {
		return reference.Permissions(e.stdout)
	}
	doc, err := reference.Document()
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(doc)
	return err
}
