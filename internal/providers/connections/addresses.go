package connections

import (
	"net/netip"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/providers/outbound"
)

// Addresses knows where requests may go.
type Addresses interface {
	// CheckURL returns why a URL can be none of a request; nil if it can. It does not resolve names.
	CheckURL(raw string) *egress.TargetError
}

// checkAddresses adds an error for each host that settings of the connection choose and that requests may not go to,
// such as an address of a private network. A name that resolves to one is refused with each request.
func (a *authenticator) checkAddresses(v *apperr.Violations, engine *outbound.Engine, target outbound.Target,
	hosts []string) {
	if a.addresses == nil {
		return // a test of something else
	}
	fixed := engine.FixedHosts(target)
	for _, host := range hosts {
		if slices.Contains(fixed, host) {
			continue
		}
		scheme, name := split(host)
		written := name
		if ip, err := netip.ParseAddr(name); err == nil && ip.Is6() {
			written = "[" + name + "]"
		}
		if refused := a.addresses.CheckURL(scheme + "://" + written); refused != nil {
			v.Add(settingWith(engine, target.Config, name), refused.Code, refused.Message)
		}
	}
}

// split returns scheme and name of a host as outbound.Engine.Hosts names it.
func split(host string) (scheme, name string) {
	if scheme, name, found := strings.Cut(host, "://"); found {
		return scheme, name
	}
	return "https", host
}

// settingWith returns the place of the setting that has a host in its value, or that of all settings.
func settingWith(engine *outbound.Engine, config outbound.Config, host string) string {
	const all = "connection_config"
	for _, f := range engine.ConfigFields() {
		if value := config[f.Name].Reveal(); !f.Secret && strings.Contains(strings.ToLower(value), host) {
			return all + "." + f.Name
		}
	}
	return all
}
