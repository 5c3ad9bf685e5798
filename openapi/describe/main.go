// Command describe copies the comments of the API's fields into openapi/descriptions.json, from which the program
// describes them in the OpenAPI document. It is run in the root of the repository:
//
//	go run ./openapi/describe > openapi/descriptions.json
package main

import (
	"fmt"
	"os"

	"sallyport/internal/reference"
)

func main() {
	text, err := describe(".", reference.API().Fields())
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
