// Package definitions embeds the provider definitions that ship with the product.
package definitions

import "embed"

//go:embed *.yaml
var files embed.FS

// FS returns the definitions, one <slug>.yaml for each provider.
func FS() embed.FS { return files }
