package apikeys

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
)

// parseSources returns the networks sorted, and adds the validation errors of texts that are not networks. Host bits
// are an error, because the author may have meant one address.
func parseSources(v *apperr.Violations, cidrs []string) []netip.Prefix {
	const at = "source_cidrs"
	switch {
	case cidrs == nil:
		return nil
	case len(cidrs) == 0:
		v.Add(at, "min_items", "must name at least one network; null stands for all")
	case len(cidrs) > MaxSourceCIDRs:
		v.Add(at, "max_items", fmt.Sprintf("must be at most %d networks", MaxSourceCIDRs))
		return nil
	}
	var out []netip.Prefix
	for i, text := range cidrs {
		network, err := clientaddr.ParseNetwork(text)
		switch at := fmt.Sprintf("%s[%d]", at, i); {
		case err != nil:
			v.Add(at, "cidr", err.Error())
		case slices.Contains(out, network):
			v.Add(at, "unique", "is a duplicate")
		default:
			out = append(out, network)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

// mayComeFrom reports whether a key with these networks may be used at a client's address; nil stands for all networks.
// An unknown address is in none.
func mayComeFrom(networks []netip.Prefix, ip string) bool {
	if networks == nil {
		return true
	}
	address, known := clientaddr.Parse(ip)
	return known && clientaddr.In(address, networks)
}

func encodeSources(networks []netip.Prefix) (string, error) {
	return strings.Join(sourceTexts(networks), " "), nil
}

// decodeSources reads what encodeSources wrote. The result is not nil, which would stand for all networks.
func decodeSources(text string) ([]netip.Prefix, error) {
	list := []netip.Prefix{}
	for part := range strings.FieldsSeq(text) {
		network, err := clientaddr.ParseNetwork(part)
		if err != nil {
			return nil, fmt.Errorf("decode a network: %w", err)
		}
		list = append(list, network)
	}
	return list, nil
}

// sourceTexts returns the networks in CIDR notation. The result is not nil.
func sourceTexts(networks []netip.Prefix) []string {
	out := make([]string, len(networks))
	for i, p := range networks {
		out[i] = p.String()
	}
	return out
}
