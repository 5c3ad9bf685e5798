package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/platform/suggest"
)

// foreignVariable matches variables that others set. Kubernetes gives every pod variables about the services of its
// namespace, so that a service called sallyport or sallyport-admin makes such names. The others belong to the tests.
var foreignVariable = regexp.MustCompile(`^SALLYPORT_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|` +
	`PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$|^SALLYPORT_(TEST|REQUIRE)_`)

// unknownVariables reports the variables that begin as settings do and are none. An empty one counts as unset.
func (l *Loader) unknownVariables() {
	known := slices.Clone(l.others)
	for _, s := range settings() {
		if s.env {
			known = append(known, s.variable())
		}
	}
	ends := make([]string, len(known))
	for i, name := range known {
		ends[i] = strings.TrimPrefix(name, variablePrefix)
	}
	flags := map[string]bool{}
	for _, s := range settings() {
		flags[s.variable()] = !s.env // reported as a setting of another source
	}
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		if !strings.HasPrefix(name, variablePrefix) || l.environ[name] == "" || slices.Contains(known, name) ||
			flags[name] || foreignVariable.MatchString(name) {
			continue
		}
		message := "is not a setting"
		// Without what all of them begin with: a name of three letters is not near to every other of four.
		if meant, ok := suggest.Name(strings.TrimPrefix(name, variablePrefix), ends); ok {
			message += ", did you mean " + variablePrefix + meant + "?"
		}
		l.report(problem{Key: name, Origin: settingOrigin{Source: sourceEnvironment, Name: "environment"}, Message: message})
	}
}
