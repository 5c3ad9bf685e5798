package reference

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
)

const permissionsIntro = `# Permissions and roles

Generated from the code by ` + "`sallyport openapi --permissions`" + `; do not edit.

A role is a list of permissions. Roles are given to the members of a team by role bindings, in the whole team or in one environment;
[the guide to roles](../guides/roles.md) shows how. API keys have grants instead of permissions. Permissions are read for each
request, so a removed role has no effect from the next request on.

A permission of the level ` + "`environment`" + ` holds in one environment where its role is given there, and in every one where it is given in the
team. One of the level ` + "`team`" + ` holds only where its role is given in the team. Every member has those of the level ` + "`account`" + `, and no role
lists them.

## System roles
They are fixed.

| Role | Purpose |
|---|---|
`

// Permissions writes docs/reference/permissions.md: what each permission means, which system roles bring it and which
// operations it opens.
func Permissions(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(permissionsIntro)
	for _, r := range access.SystemRoles() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r, r.Meaning())
	}
	writeMatrix(&b)
	writeOpened(&b, API().Operations())
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write the permissions: %w", err)
	}
	return nil
}

func writeMatrix(b *bytes.Buffer) {
	b.WriteString("\n## Permissions of the system roles\n| Permission |")
	for _, r := range access.SystemRoles() {
		fmt.Fprintf(b, " %s |", r)
	}
	b.WriteString("\n|---|" + strings.Repeat(":-:|", len(access.SystemRoles())) + "\n")
	for _, p := range access.Grantable() {
		fmt.Fprintf(b, "| `%s` |", p)
		for _, r := range access.SystemRoles() {
			mark := "–"
			if slices.Contains(r.Permissions(), p) {
				mark = "yes"
			}
			fmt.Fprintf(b, " %s |", mark)
		}
		b.WriteString("\n")
	}
}

func writeOpened(b *bytes.Buffer, operations []httpapi.Operation) {
	operations = slices.SortedFunc(slices.Values(operations), func(a, b httpapi.Operation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})
	b.WriteString("\n## Operations of each permission\n| Permission | Level | Meaning | Operations |\n|---|---|---|---|\n")
	for _, i := range access.Registry() {
		var opened []string
		for _, op := range operations {
			if op.Permission == i.Permission {
				opened = append(opened, "`"+op.Method+" "+op.Path+"`")
			}
		}
		if len(opened) == 0 {
			opened = []string{"none by itself"}
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", i.Permission, i.Level, i.Meaning, strings.Join(opened, "<br>"))
	}
}
