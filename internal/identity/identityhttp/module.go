package identityhttp

import (
	"sallyport/internal/identity"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Modules returns all that the capabilities of the district bring to the process.
func Modules(s *identity.Services) []module.Module {
	team := s.Team.Module()
	team.Mount = func(api *httpapi.API) { Mount(api, s) }
	return []module.Module{team, s.Members.Module(), s.AccessTokens.Module(), s.SignIn.Module(),
		s.Invitations.Module(), s.Keys.Module(), s.Setup.Module()}
}
