package httpapi

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// documentTags returns the groups of operations with their descriptions, in the order in which one needs them: first
// webhooks on their way from a provider to a receiver, then who may call the API.
func documentTags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "Connections", Description: "A connection is your link to one account at a provider. It has the URL that " +
			"the provider calls and the secrets that verify its webhooks."},
		{Name: "Webhook events", Description: "An event is a stored webhook, or one that you publish yourself. It shows " +
			"its deliveries and their attempts, and can be replayed."},
		{Name: "Webhook subscriptions", Description: "A subscription forwards the events that match it to a URL, signed " +
			"and with retries."},
		{Name: "Webhook replays", Description: "A bulk replay sends the events of a filter again, as after an outage of a " +
			"receiver."},
		{Name: "Event stream", Description: "The stream shows events and attempts as they happen, as server-sent events."},
		{Name: "Webhook rejections", Description: "The last requests that each connection rejected, with the reasons."},
		{Name: "Inbound", Description: "The URL that providers call. It needs no credential of this API: the provider's " +
			"signature is verified."},
		{Name: "Provider configurations", Description: "A provider configuration holds your own settings of a provider, " +
			"such as your OAuth client. A provider can have several; connections belong to one of them."},
		{Name: "Catalog", Description: "The catalog says what can be done at providers: their actions, with schemas and " +
			"risks. Imports of descriptions of APIs add providers and actions to an environment."},
		{Name: "Actions", Description: "An action is something that can be done at a provider. An execution is one that " +
			"was asked for, with what came of it."},
		{Name: "Governance", Description: "Decisions of an environment's rules about calls to providers, and the record " +
			"of each call."},
		{Name: "API keys", Description: "An API key belongs to one environment. Its grants say what it opens."},
		{Name: "Environments", Description: "An environment separates data, such as production from staging."},
		{Name: "Team", Description: "The team, its members, and invitations to join it."},
		{Name: "Roles", Description: "A role is a set of permissions. A role binding gives it to a user, in the team or in " +
			"one environment."},
		{Name: "Sign-in", Description: "Access tokens of users, their sessions, passwords and authenticator apps."},
		{Name: "Identity providers", Description: "Sign-in with OpenID Connect, and roles from the groups of your " +
			"directory."},
		{Name: "Audit", Description: "The audit trail has one event for each administrative change."},
	}
}

// usedTags returns the tags of documentTags that operations have, and after them those that it does not list.
func usedTags(doc *huma.OpenAPI) []*huma.Tag {
	used := map[string]bool{}
	for _, item := range doc.Paths {
		for _, op := range operationsOf(item) {
			for _, tag := range op.Tags {
				used[tag] = true
			}
		}
	}
	var tags []*huma.Tag
	for _, tag := range documentTags() {
		if used[tag.Name] {
			tags = append(tags, tag)
			delete(used, tag.Name)
		}
	}
	for name := range used {
		tags = append(tags, &huma.Tag{Name: name})
	}
	slices.SortStableFunc(tags[len(tags)-len(used):], func(a, b *huma.Tag) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return tags
}

// operationsOf returns the operations of a path.
func operationsOf(item *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{item.Get, item.Head, item.Options, item.Post, item.Put, item.Patch, item.Delete}
	return slices.DeleteFunc(all, func(op *huma.Operation) bool { return op == nil })
}
