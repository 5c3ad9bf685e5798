package patch

import "maps"

// Merge returns what the patch of an object leads to: MergePatch of RFC 7396 section 2, at every depth. A field that is
// absent keeps the object, null empties it, and a null member removes its name. The result is not nil where the field
// is set, and shares no object with the arguments that a later Merge could change.
func Merge(target map[string]any, p Field[Object]) map[string]any {
	switch {
	case !p.Set:
		return target
	case p.Null:
		return map[string]any{}
	default:
		return merge(target, p.Value)
	}
}

func merge(target, patch map[string]any) map[string]any {
	out := make(map[string]any, len(target)+len(patch))
	maps.Copy(out, target)
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			inner, _ := out[name].(map[string]any)
			out[name] = merge(inner, value)
		default:
			out[name] = value
		}
	}
	return out
}

// MergeMembers is Merge for an object of plain values: nil removes its name.
func MergeMembers[T any](target map[string]T, p Field[map[string]*T]) map[string]T {
	if !p.Set {
		return target
	}
	out := map[string]T{}
	if !p.Null {
		maps.Copy(out, target)
	}
	for name, value := range p.Value {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = *value
		}
	}
	return out
}
