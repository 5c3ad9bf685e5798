package wire

import (
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi/oas"
)

// Permission is a permission.
type Permission access.Permission

// Schema returns the schema with all permissions.
func (Permission) Schema(oas.Registry) *oas.Schema { return oas.Enum(access.Permissions()) }

// PrincipalType is the kind of a principal that can have a role.
type PrincipalType access.Kind

// Schema returns the schema with the kinds.
func (PrincipalType) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]access.Kind{access.KindUser})
}

// EnvironmentType is the type of an environment.
type EnvironmentType team.EnvironmentType

// Schema returns the schema with the types.
func (EnvironmentType) Schema(oas.Registry) *oas.Schema { return oas.Enum(team.EnvironmentTypes()) }
