package operator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"sallyport/internal/platform/egress"
)

func (d *doctor) listeners(context.Context) Check {
	switch {
	case d.cfg.AdminListen != "" && !loopbackHost(hostOf(d.cfg.AdminListen)):
		return warn("the admin listener takes connections from other machines, and asks for no credential",
			"Bind --admin-listen to 127.0.0.1 or to an address that only operators reach.")
	case d.cfg.TLSCert == "" && !loopbackHost(hostOf(d.cfg.Listen)) && strings.HasPrefix(d.cfg.PublicURL, "http://"):
		return warn("the public listener takes unencrypted connections from other machines",
			"Give it --tls-cert and --tls-key, or put a proxy that speaks TLS before it and set --public-url to its https:// "+
				"URL.")
	case d.cfg.TLSCert != "":
		return ok(d.cfg.Listen + " with TLS")
	default:
		return ok(d.cfg.Listen + " without TLS")
	}
}

// certificateWarn is how long before its end a certificate is worth a word: renewal is overdue by then.
const certificateWarn = 14 * 24 * time.Hour

func (d *doctor) certificate(context.Context) Check {
	if d.cfg.TLSCert == "" {
		return skip("no certificate is configured")
	}
	const renew = "Renew the certificate; the server takes the new files without a restart."
	pair, err := tls.LoadX509KeyPair(d.cfg.TLSCert, d.cfg.TLSKey)
	if err != nil {
		return fail("the pair cannot be read: "+err.Error(),
			"Check that --tls-cert and --tls-key are PEM files that belong together and are readable.")
	}
	leaf, now := pair.Leaf, d.clock.Now()
	until := leaf.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case now.After(leaf.NotAfter):
		return fail("the certificate ended on "+until, renew)
	case now.Before(leaf.NotBefore):
		return fail("the certificate begins on "+leaf.NotBefore.UTC().Format(time.DateOnly),
			"Check the certificate and this machine's clock.")
	case now.Add(certificateWarn).After(leaf.NotAfter):
		return warn("the certificate ends on "+until, renew)
	}
	if u, err := url.Parse(d.cfg.PublicURL); err == nil && u.Scheme == "https" &&
		leaf.VerifyHostname(u.Hostname()) != nil {
		return warn("the certificate does not cover the host of the public URL",
			"Get one that does, unless a proxy with a certificate of its own receives the requests.")
	}
	return ok("valid until " + until)
}

// maxHealthBytes is more than any response of /healthz has.
const maxHealthBytes = 1 << 10

func (d *doctor) publicURL(ctx context.Context) Check {
	const hint = "If the server should be running, start it, and check --public-url and what stands between (DNS, " +
		"proxy, firewall)."
	u, err := url.Parse(d.cfg.PublicURL)
	if err != nil {
		return fail("it is no URL", "Correct --public-url.")
	}
	if d.cfg.GuessesPublicURL() {
		return warn("it is not set, and the listener takes requests at all addresses: webhook URLs and links contain "+
			d.cfg.PublicURL+", which only this machine reaches", "Set --public-url to the URL that providers and users use.")
	}
	client := egress.New(egress.Policy{AllowCIDRs: d.cfg.EgressAllow, AllowLoopback: loopbackHost(u.Hostname()),
		AllowHTTP: true}, egress.Options{Clock: d.clock})
	defer client.Close()
	target, terr := client.ParseTarget(d.cfg.PublicURL + "/healthz")
	if terr != nil {
		return warn("it cannot be asked from here: "+terr.Message, "Providers on the internet do not reach such an address.")
	}
	resp, eerr := client.Do(ctx, egress.Request{Method: http.MethodGet, URL: target, Timeout: checkTimeout / 2,
		MaxResponseBytes: maxHealthBytes})
	if eerr != nil {
		return warn("no response: "+eerr.Message, hint)
	}
	var health struct {
		Status string `json:"status"`
	}
	if resp.Status != http.StatusOK || json.Unmarshal(resp.Body, &health) != nil || health.Status != "ok" {
		return warn(fmt.Sprintf("something other than Sallyport responds, with status %d", resp.Status), hint)
	}
	return ok("Sallyport responds there")
}

func (d *doctor) proxies(context.Context) Check {
	list := d.cfg.TrustedProxies
	for _, p := range list {
		if p.Bits() == 0 {
			return warn("every address is trusted, so that every client can claim any address",
				"List the proxies' own addresses in --trusted-proxies.")
		}
	}
	switch {
	case len(list) > 0:
		return ok(join(list))
	case d.cfg.HidesClients():
		return warn("none, but the public URL leads to a proxy or tunnel: every client appears under its address, and "+
			"rejected webhooks of a stranger use up the limit of all senders",
			"List the address of the proxy or tunnel in --trusted-proxies, such as 127.0.0.1.")
	default:
		return ok("none: clients connect directly")
	}
}

// metadataAddresses are the addresses at which clouds give credentials to any process inside.
func metadataAddresses() []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{169, 254, 169, 254}),
		netip.AddrFrom4([4]byte{168, 63, 129, 16}),   // Azure
		netip.AddrFrom4([4]byte{100, 100, 100, 200}), // Alibaba Cloud
		netip.MustParseAddr("fd00:ec2::254"),         // AWS
	}
}

func (d *doctor) egress(context.Context) Check {
	for _, p := range d.cfg.EgressAllow {
		if p.Bits() == 0 {
			return warn(p.String()+" opens every address, this machine's own among them",
				"List in --egress-allow only the ranges that receivers are in.")
		}
		for _, a := range metadataAddresses() {
			if p.Contains(a) {
				return warn(p.String()+" opens the cloud's metadata service, which gives out credentials",
					"Narrow --egress-allow so that it leaves out "+a.String()+".")
			}
		}
	}
	message := "public addresses only"
	if len(d.cfg.EgressAllow) > 0 {
		message = "public addresses, and " + join(d.cfg.EgressAllow)
	}
	if d.cfg.Dev {
		message += ", and loopback (development mode)"
	}
	if d.cfg.EgressAllowHTTP {
		return ok(message + "; over https and http")
	}
	return ok(message + "; over https")
}

func join(list []netip.Prefix) string {
	parts := make([]string, len(list))
	for i, p := range list {
		parts[i] = p.String()
	}
	return strings.Join(parts, ", ")
}

// hostOf is the host of an address to listen on; empty for all addresses.
func hostOf(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return hostPort
	}
	return host
}

func loopbackHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}
