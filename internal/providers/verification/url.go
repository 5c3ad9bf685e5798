package verification

import (
	"net"
	"net/url"
	"strings"
)

// urlVariant is one of the forms of the webhook's URL that a provider may have signed.
type urlVariant struct {
	// otherPort leaves the port out where the URL has one, and puts the scheme's own where it has none.
	otherPort bool
	noQuery   bool
}

// compileVariants reads url_variants into the variants to try, the URL as it is first.
func (c *proofCompiler) compileVariants() {
	d, p := c.decl, c.proof
	p.variants = []urlVariant{{}}
	field := c.path + "url_variants"
	if len(d.URLVariants) > 0 && !p.content.url {
		c.problems.add(field, ruleCoherent, "has no meaning: signed contains no {url}")
	}
	for i, name := range d.URLVariants {
		var change func(urlVariant) urlVariant
		switch name {
		case "port":
			change = func(v urlVariant) urlVariant { v.otherPort = true; return v }
		case "no_query":
			change = func(v urlVariant) urlVariant { v.noQuery = true; return v }
			p.covers.query = false
		default:
			c.problems.add(at(field, i), ruleEnum, "must be port or no_query")
			continue
		}
		if p.variants[len(p.variants)-1] == change(p.variants[len(p.variants)-1]) {
			c.problems.add(at(field, i), ruleUnique, "is listed twice")
			continue
		}
		for _, v := range p.variants {
			p.variants = append(p.variants, change(v))
		}
	}
}

// variantBase returns scheme, host and path prefix of a URL in one of its forms.
func variantBase(base string, v urlVariant) string {
	if !v.otherPort {
		return base
	}
	scheme, rest, _ := strings.Cut(base, "://")
	authority, path, slash := strings.Cut(rest, "/")
	if host, _, err := net.SplitHostPort(authority); err == nil {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		authority = host
	} else {
		port := "443"
		if scheme == "http" {
			port = "80"
		}
		authority += ":" + port
	}
	base = scheme + "://" + authority
	if slash {
		base += "/" + path
	}
	return base
}

// CheckURLBase returns what is wrong with a connection's url_base, or nothing.
func CheckURLBase(base string) string {
	if base == "" {
		return ""
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" ||
		len(base) > maxText || strings.HasSuffix(base, "/") || strings.ContainsAny(base, " ?#{[\"") {
		return "must be http(s)://host, with the path that a proxy adds before the gateway's own, and without a slash at " +
			"the end"
	}
	return ""
}
