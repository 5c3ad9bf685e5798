package filters

import (
	"slices"
	"sync"
	_ "time/tzdata" // the zones that filters name are the same on every machine

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

const (
	// variable is the one name that a filter can use, and eventType what the checker calls its type.
	variable  = "event"
	eventType = "Event"
	// maxNodes bounds a filter after its macros are expanded, and maxDepth how deep it nests.
	maxNodes, maxDepth = 2000, 50
)

// environment is the CEL environment of filters. It is built once and immutable.
var environment = sync.OnceValue(newEnvironment) //nolint:gochecknoglobals // a constant

func newEnvironment() *cel.Env {
	registry, err := types.NewRegistry()
	if err != nil {
		panic(err) // it takes nothing that could be wrong
	}
	env, err := cel.NewCustomEnv(
		cel.CustomTypeProvider(provider{Registry: registry, fields: fields()}),
		cel.CustomTypeAdapter(adapter{}),
		cel.StdLib(),
		cel.OptionalTypes(cel.OptionalTypesVersion(1)),
		cel.Variable(variable, types.NewObjectType(eventType)),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(MaxLength),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserErrorRecoveryLimit(4),
		cel.ExpressionNodeLimit(maxNodes),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	)
	if err != nil {
		panic(err) // the options are constants, so every test would see it
	}
	// The first unknown name makes the checker store what it suggests instead, without a lock that all readers take.
	_, _ = env.Compile("unknown")
	return env
}

// provider knows the type of the event in addition to CEL's own types.
type provider struct {
	*types.Registry
	fields map[string]*types.FieldType
}

// FindStructType knows the event's type alone: there are no messages to make.
func (p provider) FindStructType(name string) (*types.Type, bool) {
	if name != eventType {
		return nil, false
	}
	return types.NewTypeTypeWithParam(types.NewObjectType(eventType)), true
}

// FindStructFieldNames returns the names of the event's fields.
func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if name != eventType {
		return nil, false
	}
	return fieldNames(p.fields), true
}

// FindStructFieldType returns a field of the event.
func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != eventType {
		return nil, false
	}
	t, ok := p.fields[field]
	return t, ok
}

func fieldNames(fields map[string]*types.FieldType) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
