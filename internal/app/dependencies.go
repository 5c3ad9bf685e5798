package app

// Dependencies returns the table of capabilities: each one's folder under internal, with the
// capabilities that it may import. A need that is not in the table is met by an interface of one or two methods that
// the consumer declares and this package fills. The table is acyclic, and internal/archtest holds the tree to it.
//
// The HTTP package of a capability may import that capability and what its row allows. A row named after an HTTP
// package adds what only its views need.
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

		// The district put together.
		"identity": {"identity/accesstokens", "identity/apikeys", "identity/installation", "identity/invitations",
			"identity/members", "identity/principals", "identity/setup", "identity/signin", "identity/team"},

		"providers/verification": {},
		"providers/registry":     {"providers/verification"},
		"providers/connections":  {"providers/registry", "providers/verification", "identity/audit"},
		"webhooks/filters":       {"webhooks/events"},
		"webhooks/subscriptions": {"identity/audit", "providers/connections", "webhooks/filters"},
		"webhooks/events":        {},
		"webhooks/rejections":    {},
		"webhooks/deliveries":    {"webhooks/events", "webhooks/subscriptions", "webhooks/filters", "identity/audit"},
		"webhooks/ownevents": {"webhooks/events", "webhooks/subscriptions", "webhooks/filters", "webhooks/deliveries",
			"providers/connections"},
		"webhooks/retention":   {"webhooks/events", "webhooks/deliveries"},
		"webhooks/eventstream": {"webhooks/events", "webhooks/deliveries", "webhooks/subscriptions"},
		"webhooks/replays":     {"webhooks/deliveries", "webhooks/subscriptions", "webhooks/events", "identity/audit"},
		"webhooks/ingest": {"providers/connections", "providers/registry", "providers/verification",
			"webhooks/subscriptions", "webhooks/filters", "webhooks/events", "webhooks/deliveries", "webhooks/rejections"},

		// An event's detail shows its deliveries, and a replay of an event is a change to them. A list filters by what
		// subscriptions call a pattern, and so does the stream, which is one of the views.
		"webhooks/eventshttp": {"webhooks/deliveries", "webhooks/subscriptions", "webhooks/eventstream"},
	}
}

// TableOwners returns every table of the schema with the package that owns it, as its path under internal. Only the
// owner names the table in SQL; others call the owner. internal/archtest compares it with the migrations.
func TableOwners() map[string]string {
	return map[string]string{
		"installation":   "platform/db",
		"cache_versions": "platform/db",

		"idempotency_keys": "platform/idempotency",

		"rate_limit_buckets": "platform/ratelimit",
		"rate_limit_nodes":   "platform/ratelimit",

		"teams":            "identity/team",
		"environments":     "identity/team",
		"users":            "identity/members",
		"memberships":      "identity/members",
		"roles":            "identity/members",
		"role_bindings":    "identity/members",
		"api_keys":         "identity/apikeys",
		"api_key_grants":   "identity/apikeys",
		"api_key_usage":    "identity/apikeys",
		"signing_keys":     "identity/accesstokens",
		"sessions":         "identity/signin",
		"sign_in_failures": "identity/signin",
		"user_totp":        "identity/signin",

		"user_recovery_codes": "identity/signin",
		"setup_tokens":        "identity/setup",
		"user_identities":     "identity/signin",

		"sso_providers": "identity/sso",
		"sso_sign_ins":  "identity/sso",

		"password_reset_requests": "identity/signin",
		"password_resets":         "identity/signin",
		"invitations":             "identity/invitations",

		"mails": "identity/mails",

		"audit_events": "identity/audit",

		"connections":        "providers/connections",
		"webhook_aliases":    "providers/connections",
		"connection_secrets": "providers/connections",
		"webhook_enrolments": "providers/connections",

		"webhook_subscriptions": "webhooks/subscriptions",

		"webhook_events":         "webhooks/events",
		"webhook_event_payloads": "webhooks/events",
		"webhook_event_keys":     "webhooks/events",
		"webhook_event_log":      "webhooks/events",

		"webhook_stream_tickets": "webhooks/eventstream",

		"webhook_payload_horizons": "webhooks/events",

		"webhook_rejections": "webhooks/rejections",

		"webhook_replays": "webhooks/replays",

		"deliveries":        "webhooks/deliveries",
		"delivery_attempts": "webhooks/deliveries",
		"delivery_stats":    "webhooks/deliveries",
	}
}
