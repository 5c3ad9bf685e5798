package filters

import (
	"strings"

	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

const (
	// assumedSize is how many elements the lists, objects and texts of an event are taken to have when a filter is stored.
	assumedSize = 32
	// textUnit is how many bytes of text cost one unit, matchUnit how many steps of matching a pattern.
	textUnit, matchUnit = 10, 100
	// zoneCost is the cost of looking up a time zone, in addition to the call.
	zoneCost = 40
)

// inZone reports whether a call reads a part of a time in a time zone, as t.getHours("Europe/Berlin") does.
func inZone(function string, operands int) bool {
	const withZone = 2
	return operands == withZone && strings.HasPrefix(function, "get")
}

// model says what a call costs, before and while a filter runs. CEL's own model uses the types that the checker has
// found. Most of an event has none, so this one uses the values: one unit for the call, and what its operands come to.
type model struct{ patterns map[string]pattern }

// CallCost returns what a call with these operands has cost. It implements cost.ActualCostEstimator.
func (m model) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	total := uint64(1)
	if inZone(function, len(args)) {
		total += zoneCost
	}
	switch function {
	case operators.Equals, operators.NotEquals, operators.In, operators.OldIn:
		for _, arg := range args {
			total += weight(arg, MaxCost)
		}
	case overloads.Matches:
		if text, ok := args[0].(types.String); ok && len(args) == 2 {
			if name, ok := args[1].(types.String); ok {
				total += uint64(len(text)) * uint64(m.patterns[string(name)].size) / matchUnit //nolint:gosec // a size
			}
		}
	default:
		for _, arg := range args {
			total += length(arg)
		}
		total += length(result)
	}
	return &total
}

// length is the cost of going over a text once; other values cost nothing beyond the call.
func length(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / textUnit
	case types.Bytes:
		return uint64(len(v)) / textUnit
	default:
		return 0
	}
}

// weight is the cost of going over a value and all it holds; beyond most it stops counting.
func weight(v ref.Val, most uint64) uint64 {
	switch v := v.(type) {
	case object:
		return uint64(v.size) / textUnit //nolint:gosec // a size
	case array:
		return uint64(v.size) / textUnit //nolint:gosec // a size
	case traits.Lister:
		return each(v, most, func(item ref.Val) uint64 { return 1 + weight(item, most) })
	case traits.Mapper:
		return each(v, most, func(key ref.Val) uint64 { return 1 + weight(key, most) + weight(v.Get(key), most) })
	default:
		return length(v)
	}
}

func each(v traits.Iterable, most uint64, weigh func(ref.Val) uint64) uint64 {
	total := uint64(0)
	for it := v.Iterator(); it.HasNext() == types.True && total <= most; {
		total += weigh(it.Next())
	}
	return total
}

// EstimateCallCost returns what a call costs at most where the event's values have assumedSize elements. It implements
// cost.Estimator.
func (m model) EstimateCallCost(function, _ string, target *cost.AstNode, args []cost.AstNode) *cost.CallEstimate {
	operands := args
	if target != nil {
		operands = append([]cost.AstNode{*target}, args...)
	}
	var all cost.SizeEstimate
	for _, operand := range operands {
		all = all.Add(m.size(operand))
	}
	switch function {
	case overloads.Matches:
		pattern, _ := operands[1].Expr().AsLiteral().Value().(string)
		steps := cost.SafeMultiply(m.size(operands[0]).Max, uint64(m.patterns[pattern].size)) //nolint:gosec // a size
		return cost.NewCallEstimate(atMost(1+steps/matchUnit), nil)
	case operators.Add, overloads.TypeConvertString, overloads.TypeConvertBytes:
		return cost.NewCallEstimate(atMost(1+2*all.Max/textUnit), &all)
	case operators.Index, operators.OptIndex, operators.OptSelect, operators.Conditional, operators.LogicalAnd,
		operators.LogicalOr:
		return nil // they decide about the size of what they return
	default:
		most := 1 + 2*all.Max/textUnit
		if inZone(function, len(operands)) {
			most += zoneCost
		}
		return cost.NewCallEstimate(atMost(most), nil)
	}
}

func (m model) size(node cost.AstNode) cost.SizeEstimate {
	size := cost.EstimateSize(m, node)
	if size.IsUnknown() {
		return *m.EstimateSize(node)
	}
	return size
}

func atMost(n uint64) cost.Estimate { return cost.RangedCostEstimate(1, n) }

// EstimateSize returns the size of what an event holds. It implements cost.Estimator.
func (model) EstimateSize(cost.AstNode) *cost.SizeEstimate {
	size := cost.RangedSizeEstimate(0, assumedSize)
	return &size
}
