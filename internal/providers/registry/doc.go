// Package registry loads provider definitions: one YAML file for each provider, strictly read.
package registry
