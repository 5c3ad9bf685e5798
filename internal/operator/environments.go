package operator

import (
	"context"
	"slices"
	"strings"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/suggest"
)

// findEnvironment returns the environment with an id or a name. The error for an unknown one names those that exist.
func findEnvironment(ctx context.Context, teams *team.Service, actor access.Principal,
	idOrName string) (team.Environment, error) {
	found, err := teams.FindEnvironment(ctx, actor, idOrName)
	if !apperr.Is(err, apperr.CodeNotFound) {
		return found, err
	}
	list, failure := teams.Environments(ctx, actor)
	if failure != nil || len(list) == 0 {
		return found, err
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	slices.Sort(names)
	return found, apperr.New(apperr.CodeNotFound, "No such environment; there are "+strings.Join(names, ", ")+
		suggest.Question(idOrName, names, nil))
}
