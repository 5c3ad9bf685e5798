package app

// Dependencies returns the table of capabilities: each one's name, as its folder under internal is called, with the
// capabilities that it may import. A need that is not in the table is met by an interface of one or two methods that the
// consumer declares and this package fills. The table is acyclic, and internal/archtest holds the tree to it.
//
// The HTTP package beside a capability may import that capability and what its row allows. A row named after an HTTP
// package adds what only its views need.
func Dependencies() map[string][]string {
	return map[string][]string{
		"audit":         {},
		"identity":      {"audit"},
		"sso":           {"identity", "audit"},
		"mails":         {},
		"verification":  {},
		"providers":     {"verification"},
		"connections":   {"providers", "verification", "audit"},
		"filters":       {},
		"subscriptions": {"audit", "connections", "filters"},
		"webhookevents": {},
		"rejections":    {},
		"deliveries":    {"webhookevents", "subscriptions", "filters", "audit"},
		"ownevents":     {"webhookevents", "subscriptions", "filters", "deliveries", "connections"},
		"retention":     {"webhookevents", "deliveries"},
		"eventstream":   {"webhookevents", "deliveries", "subscriptions"},
		"replays":       {"deliveries", "subscriptions", "webhookevents", "audit"},
		"ingest":        {"connections", "providers", "verification", "subscriptions", "filters", "webhookevents", "deliveries", "rejections"},

		// An event's detail shows its deliveries, and a replay of an event is a change to them. A list filters by what
		// subscriptions call a pattern, and so does the stream, which is one of the views.
		"webhookeventshttp": {"deliveries", "subscriptions", "eventstream"},
	}
}

// TableOwners returns every table of the schema with the package that owns it, as its path under internal. Only the owner
// names the table in SQL; everybody else calls the owner. internal/archtest compares it with the migrations.
func TableOwners() map[string]string {
	return map[string]string{
		"installation":   "platform/db",
		"cache_versions": "platform/db",

		"idempotency_keys": "platform/idempotency",

		"rate_limit_buckets": "platform/ratelimit",
		"rate_limit_nodes":   "platform/ratelimit",

		"teams":            "identity",
		"environments":     "identity",
		"users":            "identity",
		"memberships":      "identity",
		"roles":            "identity",
		"role_bindings":    "identity",
		"api_keys":         "identity",
		"api_key_grants":   "identity",
		"api_key_usage":    "identity",
		"signing_keys":     "identity",
		"sessions":         "identity",
		"sign_in_failures": "identity",
		"user_totp":        "identity",

		"user_recovery_codes": "identity",
		"setup_tokens":        "identity",
		"user_identities":     "identity",

		"sso_providers": "sso",
		"sso_sign_ins":  "sso",

		"password_reset_requests": "identity",
		"password_resets":         "identity",
		"invitations":             "identity",

		"mails": "mails",

		"audit_events": "audit",

		"connections":        "connections",
		"webhook_aliases":    "connections",
		"connection_secrets": "connections",
		"webhook_enrolments": "connections",

		"webhook_subscriptions": "subscriptions",

		"webhook_events":         "webhookevents",
		"webhook_event_payloads": "webhookevents",
		"webhook_event_keys":     "webhookevents",
		"webhook_event_log":      "webhookevents",

		"webhook_stream_tickets": "eventstream",

		"webhook_payload_horizons": "webhookevents",

		"webhook_rejections": "rejections",

		"webhook_replays": "replays",

		"deliveries":        "deliveries",
		"delivery_attempts": "deliveries",
		"delivery_stats":    "deliveries",
	}
}
