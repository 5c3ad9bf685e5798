package toolformat

import (
	"strconv"
	"strings"
)

// maxWords is how many bytes a description gets for what a format cannot say otherwise.
const maxWords = 240

// words are sentences for what a format cannot say.
type words struct {
	list []string
	size int
}

func (w *words) add(sentence string) {
	if sentence == "" || w.size+len(sentence) > maxWords {
		return
	}
	w.size += len(sentence) + 1
	w.list = append(w.list, sentence)
}

// after returns a description with the sentences after it.
func (w *words) after(description string, limit int) string {
	if len(w.list) == 0 || limit == 0 {
		return cut(description, limit)
	}
	own := strings.Join(w.list, " ")
	if len(own) > limit {
		return cut(description, limit)
	}
	description = cut(description, limit-len(own)-2)
	if description == "" {
		return own
	}
	if !strings.HasSuffix(description, ".") && !strings.HasSuffix(description, "…") &&
		!strings.HasSuffix(description, ":") && !strings.HasSuffix(description, "!") &&
		!strings.HasSuffix(description, "?") {
		description += "."
	}
	return description + " " + own
}

// said are the keywords that a format has of its own.
type said uint16

const (
	saysFormat said = 1 << iota
	saysPattern
	saysEnum
	saysLength
	saysExclusive
	saysMultiple
	saysItems
	saysUnique
	saysMembers
	saysDefault
	saysDeprecated
)

// explain adds sentences for what an alternative says and a format does not.
func (w *words) explain(a *alternative, has said) {
	n := a.node
	if n.deprecated && has&saysDeprecated == 0 {
		w.add("Deprecated.")
	}
	if n.enum != nil && has&saysEnum == 0 {
		w.add(valuesInWords(n))
	}
	switch {
	case a.kind&tString != 0:
		if n.format != "" && has&saysFormat == 0 && len(n.format) <= 40 {
			w.add("Format: " + n.format + ".")
		}
		if n.pattern != "" && has&saysPattern == 0 && len(n.pattern) <= 100 {
			w.add("Pattern: " + n.pattern)
		}
		if has&saysLength == 0 {
			w.add(between(n.minLength, n.maxLength, "character", "characters"))
		}
	case a.kind&tNumber != 0:
		if n.above != nil && has&saysExclusive == 0 {
			w.add("More than " + string(n.above.raw) + ".")
		}
		if n.below != nil && has&saysExclusive == 0 {
			w.add("Less than " + string(n.below.raw) + ".")
		}
		if n.multipleOf.Exists() && has&saysMultiple == 0 {
			w.add("A multiple of " + compact(n.multipleOf) + ".")
		}
	case a.kind&tArray != 0:
		if has&saysItems == 0 {
			w.add(between(n.minItems, n.maxItems, "item", "items"))
		}
		if n.unique && has&saysUnique == 0 {
			w.add("No item twice.")
		}
	case a.kind&tObject != 0:
		if has&saysMembers == 0 {
			w.add(between(n.minProperties, n.maxProperties, "member", "members"))
		}
	}
	if n.initial.Exists() && has&saysDefault == 0 {
		if value := compact(n.initial); len(value) <= 60 && value != `""` && value != "null" {
			w.add("Default: " + value + ".")
		}
	}
}

func valuesInWords(n *node) string {
	var list []string
	size := 0
	for _, v := range n.enum {
		value := compact(v)
		if size += len(value) + 2; size > maxWords-20 {
			return ""
		}
		list = append(list, value)
	}
	return "One of: " + strings.Join(list, ", ") + "."
}

// between says how many there must be.
func between(least, most *int64, one, many string) string {
	if least != nil && *least == 0 {
		least = nil
	}
	count := func(n int64) string {
		if n == 1 {
			return "1 " + one
		}
		return strconv.FormatInt(n, 10) + " " + many
	}
	switch {
	case least != nil && most != nil && *least == *most:
		return "Exactly " + count(*most) + "."
	case least != nil && most != nil:
		return strconv.FormatInt(*least, 10) + " to " + count(*most) + "."
	case least != nil:
		return "At least " + count(*least) + "."
	case most != nil:
		return "At most " + count(*most) + "."
	default:
		return ""
	}
}
