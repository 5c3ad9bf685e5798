package actionindex

import "sallyport/internal/providers/risk"

func shareRisk(r *risk.Risk, share func(string) string) {
	r.Level, r.Operation = risk.Level(share(string(r.Level))), risk.Operation(share(string(r.Operation)))
	r.Source = risk.Source(share(string(r.Source)))
	for i, f := range r.Flags {
		r.Flags[i] = risk.Flag(share(string(f)))
	}
}
