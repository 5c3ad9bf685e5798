package risk

import "slices"

// Override is what an operator states about calls.
type Override struct {
	Declared
	// Lower permits a level below that of the call, and another operation. Without it the override only raises.
	Lower bool
}

// Override returns the risk with what an operator states about the call. Flags are added, and raise a level that no one
// states as those of other statements do. A statement that has no effect leaves no reason.
func (r Risk) Override(o *Override) Risk {
	d := o.Declared
	if !o.Lower {
		// A call that is idempotent may be sent again, so that this flag lowers.
		d.Flags = slices.DeleteFunc(slices.Clone(d.Flags), func(f Flag) bool { return f == Idempotent })
		if d.Operation.rank() <= r.Operation.rank() {
			d.Operation = ""
		}
		if d.Level != "" && !d.Level.Above(r.Level) {
			d.Level = ""
		}
	}
	if d.isEmpty() {
		return r
	}
	out := state(&d, FromOperator, "The provider configuration", r)
	out.Flags = ordered(out.Flags)
	return out
}
