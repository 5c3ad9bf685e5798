package verification

import (
	"maps"
	"slices"
	"strings"
)

// Reads reports whether the declaration reads a header, by its name in lower case: for the proof, or for the type, id,
// time or kind of a webhook.
func (v *Verifier) Reads(name string) bool {
	_, found := slices.BinarySearch(v.plan.reads, name)
	return found
}

// ReadsAny reports whether the declaration reads a header whose name begins so.
func (v *Verifier) ReadsAny(prefix string) bool {
	i, _ := slices.BinarySearch(v.plan.reads, prefix)
	return i < len(v.plan.reads) && strings.HasPrefix(v.plan.reads[i], prefix)
}

// readHeaders returns the names for plan.reads.
func (p *plan) readHeaders() []string {
	names := map[string]bool{}
	add := func(src *source) {
		for _, name := range src.headers() {
			names[strings.ToLower(name)] = true
		}
	}
	templates := slices.Clone(p.types)
	predicates := slices.Concat(p.control, p.account)
	if p.batch != nil {
		templates, predicates = append(templates, p.batch.types...), append(predicates, p.batch.when...)
	}
	for _, segments := range templates {
		for i := range segments {
			add(&segments[i].src)
		}
	}
	for i := range predicates {
		add(&predicates[i].src)
	}
	for i := range p.ids {
		for n := range p.ids[i].sources {
			add(&p.ids[i].sources[n])
		}
	}
	if p.occurred != nil {
		add(&p.occurred.src)
	}
	for _, one := range p.proofs {
		for i := range one.signatures {
			add(&one.signatures[i].src)
		}
		if one.ts != nil {
			add(&one.ts.src)
		}
		if one.singleUse != nil {
			add(one.singleUse)
		}
		for _, covered := range one.covers.sources {
			if list, isHeader := strings.CutPrefix(covered, "header:"); isHeader {
				for name := range strings.SplitSeq(list, ",") {
					names[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
