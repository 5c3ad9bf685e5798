package identityhttp

import (
	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/identity/invitations"
	"sallyport/internal/identity/signin"
	teams "sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
)

// The closed sets of the wire. Their schemas list the values from the one place that defines them.
type (
	permission       access.Permission
	grantable        access.Permission
	level            access.Level
	principalType    access.Kind
	route            access.Route
	effect           apikeys.Effect
	keyStatus        apikeys.KeyStatus
	environmentType  teams.EnvironmentType
	method           string
	totpState        signin.TOTPState
	invitationStatus invitations.InvitationStatus
)

// Schema lists the permissions.
func (permission) Schema(huma.Registry) *huma.Schema { return enum(access.Permissions()) }

// Schema lists the permissions that a role can list.
func (grantable) Schema(huma.Registry) *huma.Schema { return enum(access.Grantable()) }

// Schema lists the levels.
func (level) Schema(huma.Registry) *huma.Schema { return enum(access.Levels()) }

// Schema lists who can have a role.
func (principalType) Schema(huma.Registry) *huma.Schema { return enum([]access.Kind{access.KindUser}) }

// Schema lists the routes.
func (route) Schema(huma.Registry) *huma.Schema { return enum(access.Routes()) }

// Schema lists the effects.
func (effect) Schema(huma.Registry) *huma.Schema { return enum(apikeys.Effects()) }

// Schema lists the states of a key.
func (keyStatus) Schema(huma.Registry) *huma.Schema { return enum(apikeys.KeyStatuses()) }

// Schema lists the types of environments.
func (environmentType) Schema(huma.Registry) *huma.Schema { return enum(teams.EnvironmentTypes()) }

// Schema lists the methods of a session.
func (method) Schema(huma.Registry) *huma.Schema { return enum(signin.Methods()) }

// Schema lists the states of an authenticator app.
func (totpState) Schema(huma.Registry) *huma.Schema { return enum(signin.TOTPStates()) }

// Schema lists the states of an invitation.
func (invitationStatus) Schema(huma.Registry) *huma.Schema {
	return enum(invitations.InvitationStatuses())
}

func enum[T ~string](values []T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// convert turns a list of one string type into a list of another. It is never nil, so that it is written as [].
func convert[To, From ~string](list []From) []To {
	out := make([]To, 0, len(list))
	for _, v := range list {
		out = append(out, To(v))
	}
	return out
}
