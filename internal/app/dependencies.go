package app

// Dependencies returns the table of capabilities: the folder of each under internal, and the capabilities that it may
// import. For anything else the consumer declares an interface of one or two methods, and this package provides it. The
// table is acyclic, and internal/archtest enforces it.
//
// The HTTP package of a capability may import that capability and what its row allows. A row such as
// webhooks/eventshttp, which is short for webhooks/events/eventshttp, adds what only the HTTP package needs.
func Dependencies() map[string][]string {
	return map[string][]string{
		"identity/audit":        {},
		"identity/mails":        {},
		"identity/installation": {},
		"identity/team":         {"identity/audit"},
		"identity/members":      {"identity/team", "identity/audit"},
		"identity/accesstokens": {"identity/team", "identity/installation", "identity/audit"},
		"identity/signin": {"identity/accesstokens", "identity/members", "identity/team", "identity/installation",
			"identity/mails", "identity/audit"},
		"identity/sso": {"identity/signin", "identity/members", "identity/audit"},
		"identity/invitations": {"identity/signin", "identity/members", "identity/team", "identity/installation",
			"identity/mails", "identity/audit"},
		"identity/apikeys": {"identity/members", "identity/team", "identity/installation", "identity/audit"},
		"identity/setup": {"identity/apikeys", "identity/signin", "identity/members", "identity/team",
			"identity/installation", "identity/audit"},
		"identity/principals": {"identity/apikeys", "identity/signin", "identity/team"},

		// The JSON forms that several HTTP packages of the district show.
		"identity/wire":            {"identity/members", "identity/team"},
		"identity/invitationshttp": {"identity/wire"},
		"identity/membershttp":     {"identity/wire"},
		"identity/setuphttp":       {"identity/wire"},
		"identity/signinhttp":      {"identity/wire"},
		"identity/teamhttp":        {"identity/wire"},

		// The district put together.
		"identity": {"identity/accesstokens", "identity/apikeys", "identity/installation", "identity/invitations",
			"identity/members", "identity/principals", "identity/setup", "identity/signin", "identity/team"},

		"providers/eventtypes":     {},
		"providers/verification":   {"providers/eventtypes"},
		"providers/requestsigning": {},
		"providers/oauth":          {"providers/requestsigning"},
		"providers/outbound":       {"providers/oauth", "providers/requestsigning", "providers/verification"},
		"providers/declared":       {"providers/actions", "providers/outbound", "providers/risk"},
		"providers/registry": {"providers/actions", "providers/declared", "providers/outbound", "providers/risk",
			"providers/verification", "providers/eventtypes"},
		"providers/configs": {"providers/registry", "providers/requestsigning", "providers/actions", "providers/risk",
			"identity/audit"},
		"providers/credentials": {"identity/installation"},
		"providers/probes":      {"providers/outbound"},
		"providers/risk":        {},
		"providers/actions":     {"providers/risk"},
		"providers/documents":   {"providers/actions", "providers/outbound", "providers/risk"},
		"providers/actionindex": {"providers/actions", "providers/risk"},
		"providers/rendering":   {"providers/actions", "providers/outbound"},
		"providers/schemas":     {},
		"providers/imports": {"providers/registry", "providers/declared", "providers/documents", "providers/actions",
			"providers/actionindex",
			"identity/audit"},
		"providers/comparison": {"providers/actions", "providers/documents", "providers/outbound", "providers/registry"},
		"providers/catalog": {"providers/configs", "providers/imports", "providers/registry", "providers/actions",
			"providers/actionindex", "providers/risk"},
		"providers/tokens": {"providers/credentials", "providers/oauth", "providers/outbound",
			"providers/requestsigning"},
		"providers/connections": {"providers/configs", "providers/registry", "providers/verification", "providers/outbound",
			"providers/credentials", "providers/limiter", "providers/oauth", "providers/probes", "providers/tokens",
			"identity/audit"},
		"providers/limiter": {"providers/outbound"},
		"providers/connecting": {"providers/connections", "providers/configs", "providers/registry", "providers/outbound",
			"providers/oauth", "providers/tokens", "identity/audit", "identity/installation"},

		// The operations on imports are next to the catalog that shows what comes of them.
		"providers/cataloghttp": {"providers/imports", "providers/documents", "providers/outbound"},

		// Creating a connection with a link is one operation with creating one without.
		"providers/connectionshttp": {"providers/connecting"},

		"webhooks/filters":       {"webhooks/events"},
		"webhooks/subscriptions": {"identity/audit", "providers/connections", "providers/eventtypes", "webhooks/filters"},
		"webhooks/events":        {"providers/eventtypes"},
		"webhooks/rejections":    {},
		"webhooks/deliveries": {"providers/eventtypes", "webhooks/events", "webhooks/subscriptions", "webhooks/filters",
			"identity/audit"},
		"webhooks/ownevents": {"webhooks/events", "webhooks/subscriptions", "webhooks/filters", "webhooks/deliveries",
			"providers/connections", "providers/tokens"},
		"webhooks/retention":   {"webhooks/events", "webhooks/deliveries"},
		"webhooks/eventstream": {"providers/eventtypes", "webhooks/events", "webhooks/deliveries", "webhooks/subscriptions"},
		"webhooks/replays":     {"webhooks/deliveries", "webhooks/subscriptions", "webhooks/events", "identity/audit"},
		"webhooks/ingest": {"providers/connections", "providers/eventtypes", "providers/registry", "providers/verification",
			"webhooks/subscriptions", "webhooks/filters", "webhooks/events", "webhooks/deliveries", "webhooks/rejections"},

		"calls/gateway": {"providers/catalog", "providers/connections", "providers/outbound", "providers/rendering",
			"providers/risk", "providers/schemas"},
		"calls/calllog": {"calls/gateway", "providers/risk"},
		"calls/executions": {"calls/gateway", "identity/installation", "providers/connecting", "providers/connections",
			"providers/rendering", "providers/risk"},

		// An event's detail shows its deliveries, and a replay of an event is a change to them. A list filters by what
		// subscriptions call a pattern, and so does the stream, which is one of the views.
		"webhooks/eventshttp": {"providers/eventtypes", "webhooks/deliveries", "webhooks/subscriptions",
			"webhooks/eventstream"},
	}
}
