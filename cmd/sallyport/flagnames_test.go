package main

import (
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// A field of the API has the name of the flag that sets it: also one inside of objects and lists, one whose flag takes
// a file, and one member of a flag with NAME=VALUE. A field that no flag sets has none.
func TestFieldsHaveFlags(t *testing.T) {
	t.Parallel()
	var c connectionsCreate
	parser, err := kong.New(&c)
	require.NoError(t, err)
	given := map[string]*kong.Flag{}
	for _, f := range parser.Model.Flags {
		given[f.Name] = f
	}
	for field, flag := range map[string]string{
		"provider":                      "--provider",
		"webhook.alias":                 "--alias",
		"webhook.rate_limit_per_second": "--rate-limit-per-second",
		"webhook.source_cidrs[2]":       "--source-cidrs",
		"webhook.params.verify_token":   "--param verify_token=…",
		"webhook.params":                "--param",
		"webhook_secret":                "--webhook-secret-file",
		"metadata":                      "--metadata-file",
		"tags.team":                     "--tag team=…",
		"credentials.api_key":           "--credentials api_key=…",
		"connection_config.subdomain":   "--connection-config subdomain=…",
		"webhook.nothing":               "",
		"":                              "",
	} {
		require.Equal(t, flag, flagOf(given, field), field)
	}
}

// An error about a value that is none of a flag's names them without the empty one, and the one that is probably meant.
func TestChoicesAreExplained(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`--mode must be one of "","envelope","raw" but got "whole"`: `--mode must be one of envelope, raw but got "whole"`,
		`--kind must be one of "failed","dead_letter" but got "Dead"`: `--kind must be one of failed, dead_letter but got ` +
			`"Dead". Did you mean dead_letter?`,
		`--kind must be one of "failed","dead_letter" but got "faild"`: `--kind must be one of failed, dead_letter but got ` +
			`"faild". Did you mean failed?`,
		"unknown flag --statu": "unknown flag --statu",
	} {
		require.Equal(t, want, explainChoice(message))
	}
}
