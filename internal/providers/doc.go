// Package providers loads provider definitions: one YAML file for each provider, strictly read.
package providers
