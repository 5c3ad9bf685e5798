package risk_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/risk"
)

// Words and methods give the levels that the documentation states.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, name string
		level              risk.Level
		operation          risk.Operation
		flags              []risk.Flag
	}{
		{"GET", "/repos/{owner}/{repo}/issues", "issues/list-for-repo", risk.Low, risk.Read, nil},
		{"POST", "/repos/{owner}/{repo}/issues", "issues/create", risk.Medium, risk.Create, nil},
		{"POST", "/repos/{owner}/{repo}/issues/{n}/comments", "issues/create-comment", risk.High, risk.Create,
			[]risk.Flag{risk.NotifiesPeople}},
		{"DELETE", "/repos/{owner}/{repo}", "repos/delete", risk.High, risk.Delete, []risk.Flag{risk.Destructive}},
		{"PUT", "/repos/{owner}/{repo}/pulls/{n}/merge", "pulls/merge", risk.High, risk.Update, nil},
		{"POST", "/repos/{owner}/{repo}/transfer", "repos/transfer", risk.Critical, risk.Update,
			[]risk.Flag{risk.ChangesAccess}},
		{"PUT", "/repos/{owner}/{repo}/collaborators/{user}", "repos/add-collaborator", risk.High, risk.Update,
			[]risk.Flag{risk.ChangesAccess}},
		{"POST", "/v1/refunds", "PostRefunds", risk.Critical, risk.Create, []risk.Flag{risk.MovesMoney}},
		{"GET", "/v1/refunds", "GetRefunds", risk.Low, risk.Read, nil},
		{"POST", "/v1/payment_intents/{intent}/cancel", "PostPaymentIntentsIntentCancel", risk.Critical, risk.Update,
			[]risk.Flag{risk.MovesMoney}},
		{"DELETE", "/v1/customers/{customer}", "DeleteCustomersCustomer", risk.High, risk.Delete,
			[]risk.Flag{risk.Destructive, risk.ReturnsPII}},
		{"POST", "/chat.postMessage", "chat_postMessage", risk.High, risk.Create, []risk.Flag{risk.NotifiesPeople}},
		{"POST", "/search.messages", "search_messages", risk.Low, risk.Read, nil},
		{"POST", "/conversations.archive", "conversations_archive", risk.High, risk.Update, nil},
		{"GET", "/admin.users.remove", "admin_users_remove", risk.High, risk.Delete, []risk.Flag{risk.Destructive}},
		{"POST", "/v1/mail/send", "mail_send", risk.High, risk.Create, []risk.Flag{risk.NotifiesPeople}},
		{"POST", "/applications/{id}/tokens", "createToken", risk.Critical, risk.Create,
			[]risk.Flag{risk.ChangesAccess, risk.ReturnsSecrets}},
		{"POST", "/users/bulkDelete", "users.bulkDelete", risk.Critical, risk.Delete,
			[]risk.Flag{risk.Destructive, risk.Bulk}},
		{"POST", "/actions/workflows/{id}/dispatches", "actions/create-workflow-dispatch", risk.Critical, risk.Create,
			[]risk.Flag{risk.RunsCode}},
		{"QUERY", "/things", "things", risk.Unknown, risk.Opaque, nil},
		{"QUERY", "/things/comments", "things", risk.Unknown, risk.Opaque, nil},
		{"HEAD", "/objects/{key}", "HeadObject", risk.Low, risk.Read, nil},
		// Nouns are no verbs, and a path says more than a name.
		{"POST", "/v1/quotes/{quote}/accept", "PostQuotesQuoteAccept", risk.Critical, risk.Update,
			[]risk.Flag{risk.MovesMoney}},
		{"PATCH", "/repos/{o}/{r}/check-suites/preferences", "checks/set-suites-preferences", risk.Medium, risk.Update, nil},
		{"POST", "/bookings/{id}/check_in", "checkIn", risk.Medium, risk.Update, nil},
		{"POST", "/notifications/{id}/read", "", risk.Medium, risk.Update, nil},
		{"POST", "/things/get-or-create", "getOrCreateThing", risk.Medium, risk.Create, nil},
		{"GET", "/#Action=UpdateRole", "GET_UpdateRole", risk.High, risk.Update, []risk.Flag{risk.ChangesAccess}},
		{"GET", "/deletePad", "deletePadUsingGET", risk.High, risk.Delete, []risk.Flag{risk.Destructive}},
		{"GET", "/imports/{id}", "getImport", risk.Low, risk.Read, nil},
		{"GET", "/views.open", "views_open", risk.Medium, risk.Create, nil},
		{"POST", "/users/{id}/suspension", "", risk.High, risk.Update, nil},
		{"DELETE", "/posts/{id}/reactions/{r}", "", risk.Medium, risk.Delete, nil},
		{"POST", "/users", "createUser", risk.High, risk.Create, []risk.Flag{risk.ChangesAccess}},
		{"PUT", "/users/{id}/password", "setPassword", risk.Critical, risk.Update, []risk.Flag{risk.ChangesAccess}},
		{"PUT", "/users/{id}/status", "", risk.High, risk.Update, []risk.Flag{risk.ChangesAccess}},
		{"DELETE", "/contacts", "deleteContacts", risk.Critical, risk.Delete, []risk.Flag{risk.Bulk}},
		// Only the body says what is called.
		{"POST", "/graphql", "", risk.Unknown, risk.Opaque, nil},
		{"POST", "/admin/api/2026-01/graphql.json", "runQuery", risk.Unknown, risk.Opaque, nil},
		{"POST", "/{workspace}/json-rpc", "getThings", risk.Unknown, risk.Opaque, nil},
		{"POST", "/batch", "searchBatch", risk.Unknown, risk.Opaque, []risk.Flag{risk.Bulk}},
		{"POST", "/v1.0/$batch", "deleteAll", risk.Unknown, risk.Opaque, []risk.Flag{risk.Bulk}},
		{"POST", "/services/data/v60.0/composite/batch", "", risk.Unknown, risk.Opaque, nil},
		{"GET", "/graphql", "", risk.Low, risk.Read, nil},
		{"POST", "/contacts/batch", "", risk.Medium, risk.Create, []risk.Flag{risk.Bulk}},
		{"POST", "/graphql/{id}/notes", "", risk.Medium, risk.Create, nil},
		{"POST", "/vaults/{id}/listKeys", "Vaults_ListKeys", risk.High, risk.Read, []risk.Flag{risk.ReturnsSecrets}},
	} {
		for _, trusted := range []bool{false, true} {
			r := risk.Assess(&risk.Call{Method: c.method, Path: c.path, Name: c.name, Trusted: trusted})
			require.Equal(t, c.level, r.Level, "%s %s: %v", c.method, c.name, r)
			require.Equal(t, c.operation, r.Operation, "%s %s: %v", c.method, c.name, r)
			require.Subset(t, r.Flags, c.flags, "%s %s: %v", c.method, c.name, r)
			require.NotEmpty(t, r.Reasons)
		}
	}
}

// Words that mean something else by the words next to them say nothing: of money, of ownership, or of people.
func TestWordsOfOtherMeanings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, name, summary string
		level                       risk.Level
		flags                       []risk.Flag
	}{
		{"POST", "/project/{p}/checkout-key", "createCheckoutKey", "", risk.High, []risk.Flag{risk.ChangesAccess}},
		{"DELETE", "/project/{p}/checkout-key/{fingerprint}", "", "", risk.High, []risk.Flag{risk.Destructive,
			risk.Idempotent, risk.ChangesAccess}},
		{"POST", "/repos/{r}/checkout-branch", "", "", risk.Medium, nil},
		{"POST", "/checkout/sessions", "PostCheckoutSessions", "", risk.Critical, []risk.Flag{risk.MovesMoney}},
		{"PUT", "/me/player", "transfer-a-users-playback", "", risk.Medium, []risk.Flag{risk.Idempotent, risk.ReturnsPII}},
		{"PUT", "/me/player", "", "Transfer playback", risk.Medium, []risk.Flag{risk.Idempotent}},
		{"POST", "/players/{id}/transfer-money", "", "", risk.Critical, []risk.Flag{risk.MovesMoney}},
		{"POST", "/checkout/commit", "", "", risk.Critical, []risk.Flag{risk.MovesMoney}},
		{"POST", "/TransferCall/", "", "/TransferCall/", risk.Medium, nil},
		{"POST", "/chats/{id}/transfer", "transferChat", "", risk.Medium, nil},
		{"POST", "/repos/{id}/transfer", "transferRepo", "", risk.Critical, []risk.Flag{risk.ChangesAccess}},
		{"POST", "/accounts/{id}/transfer", "", "", risk.Critical, []risk.Flag{risk.MovesMoney, risk.ReturnsPII}},
		{"POST", "/transfers", "createTransfer", "", risk.Critical, []risk.Flag{risk.MovesMoney}},
		{"POST", "/v1/accounts/{id}/contacts", "Contacts_PostContacts", "", risk.Medium, []risk.Flag{risk.ReturnsPII}},
		{"POST", "/v1/accounts/{id}/envelopes", "Envelopes_PostEnvelope", "", risk.Medium, []risk.Flag{risk.ReturnsPII}},
		{"POST", "/api/monitor", "api_monitor_post", "", risk.Medium, nil},
		{"POST", "/blogs/{id}/entries", "createPost", "", risk.High, []risk.Flag{risk.NotifiesPeople}},
		{"POST", "/blogs/{id}/posts", "Posts_PostPost", "", risk.High, []risk.Flag{risk.NotifiesPeople}},
		{"POST", "/chat.postMessage", "chat_postMessage", "", risk.High, []risk.Flag{risk.NotifiesPeople}},
	} {
		r := risk.Assess(&risk.Call{Method: c.method, Path: c.path, Name: c.name, Summary: c.summary})
		require.Equal(t, c.level, r.Level, "%s %s: %v", c.method, c.path, r)
		require.ElementsMatch(t, c.flags, r.Flags, "%s %s %s: %v", c.method, c.path, c.name, r)
	}
}

// calls draws calls whose words, scopes and statements work with and against each other.
func calls(rt *rapid.T) risk.Call {
	return risk.Call{
		Method: rapid.SampledFrom([]string{"GET", "POST", "PUT", "PATCH", "DELETE", "QUERY"}).Draw(rt, "method"),
		Path: rapid.SampledFrom([]string{"/refunds", "/users", "/a/{b}/token", "/x", "/a/{b}/delete", "/items/search",
			"/#Action=GetThing", "/a.remove", "/batch", "/graphql", "/posts/{id}/reactions/{r}",
			"/wallets/{id}/send"}).Draw(rt, "path"),
		Name: rapid.SampledFrom([]string{"", "getThing", "delete_all_things", "sendMessage", "searchUsers", "list",
			"unfollow", "simulateRefund", "tagThing", "transferCall", "Things_PostThing"}).Draw(rt, "name"),
		Summary: rapid.SampledFrom([]string{"", "Get a thing", "Delete a thing"}).Draw(rt, "summary"),
		Scopes:  rapid.SampledFrom([][]string{nil, {"users:read"}, {"admin:org"}, {"write"}}).Draw(rt, "scopes"),
	}
}

// destruction orders operations by what they can destroy.
func destruction(o risk.Operation) int {
	switch o {
	case risk.Read:
		return 0
	case risk.Create, risk.Update:
		return 1
	default:
		return 2
	}
}

// notLowered fails if a call is seen as less harmful than before.
func notLowered(rt *rapid.T, before, after risk.Risk) {
	require.False(rt, before.Level.Above(after.Level), "%v then %v", before, after)
	require.LessOrEqual(rt, destruction(before.Operation), destruction(after.Operation), "%v then %v", before, after)
	for _, f := range before.Flags {
		if f != risk.Idempotent {
			require.Contains(rt, after.Flags, f)
		}
	}
	if !slices.Contains(before.Flags, risk.Idempotent) {
		require.NotContains(rt, after.Flags, risk.Idempotent, "a call that may be sent again is less harmful")
	}
	require.NotEmpty(rt, after.Reasons)
}

// Words do not make a call read that is declared to write, and raise its risk as they do for others.
func TestWritesAreNoReads(t *testing.T) {
	t.Parallel()
	for name, level := range map[string]risk.Level{"resolveThread": risk.Medium, "verifyDomain": risk.Medium,
		"deleteThread": risk.High, "payOrder": risk.Critical} {
		r := risk.Assess(&risk.Call{Method: "POST", Name: name, Writes: true, Trusted: true})
		require.Equal(t, level, r.Level, name)
		require.NotEqual(t, risk.Read, r.Operation, name)
	}
	require.Equal(t, risk.Low, risk.Assess(&risk.Call{Method: "POST", Name: "searchThreads", Trusted: true}).Level)
}

// Names of secrets are recognised, and those of the tokens of pages are none.
func TestNamesOfSecrets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"apiToken": true, "webhook_secrets": true, "password": true,
		"nextToken": false, "nextPageToken": false, "name": false} {
		require.Equal(t, want, risk.NamesSecret(name), name)
	}
}

// A document that is not trusted raises a risk and never lowers it: neither by a statement, nor by an id, a summary, a
// fragment of the path or scopes. Operators and definitions do both.
func TestUntrustedDocumentsOnlyRaise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := calls(rt)
		sent, _, _ := strings.Cut(c.Path, "#")
		notLowered(rt, risk.Assess(&risk.Call{Method: c.Method, Path: sent}), risk.Assess(&c))

		before := risk.Assess(&c)
		d := risk.Declared{
			Level:     rapid.SampledFrom(append(risk.Levels(), "")).Draw(rt, "level"),
			Operation: rapid.SampledFrom(append(risk.Operations(), "")).Draw(rt, "operation"),
			Flags:     rapid.SliceOf(rapid.SampledFrom(risk.Flags())).Draw(rt, "flags"),
		}
		c.Document = &d
		after := risk.Assess(&c)
		notLowered(rt, before, after)
		if d.Level != "" {
			require.False(rt, d.Level.Above(after.Level), "%v raises", d)
		}
		if slices.Contains(d.Flags, risk.MovesMoney) && d.Level == "" {
			require.Equal(rt, risk.Critical, after.Level)
		}
		c.Trusted = true
		if d.Level != "" {
			require.Equal(rt, d.Level, risk.Assess(&c).Level)
		}
		c.Document, c.Definition, c.Trusted = nil, &d, false
		if d.Level != "" {
			require.Equal(rt, d.Level, risk.Assess(&c).Level)
			require.Equal(rt, risk.FromDefinition, risk.Assess(&c).Source)
		}
		require.Subset(rt, risk.Assess(&c).Flags, d.Flags)
		c.Operator = &risk.Declared{Level: risk.Critical, Reason: "We say so."}
		of := risk.Assess(&c)
		require.Equal(rt, risk.Critical, of.Level)
		require.Equal(rt, "We say so.", of.Reasons[0])
		require.Equal(rt, risk.FromOperator, of.Source)
	})
}

// A statement of flags only does not pretend to have decided the level, unless it raises it.
func TestFlagsWithoutLevel(t *testing.T) {
	t.Parallel()
	c := risk.Call{Method: "DELETE", Path: "/things/{id}",
		Document: &risk.Declared{Flags: []risk.Flag{risk.NotifiesPeople}, Reason: "It writes a mail."}}
	r := risk.Assess(&c)
	require.Equal(t, risk.FromWords, r.Source)
	require.Equal(t, "DELETE destroys something.", r.Reasons[0])
	require.Contains(t, r.Reasons, "It writes a mail.")
	c.Method = "POST"
	r = risk.Assess(&c)
	require.Equal(t, risk.High, r.Level)
	require.Equal(t, risk.FromDocument, r.Source)
	require.Equal(t, "It writes a mail.", r.Reasons[0])
}

// Any name and path, which come from a document, has a risk: a valid level, flags once each, and reasons.
func FuzzAssess(f *testing.F) {
	f.Add("POST", "/search.messages", "search_messages", "", true)
	f.Add("GET", "/1.x/{a}.json/{b", "GET_", "Delete it", false)
	f.Add("DELETE", "//.:?=#=", "a/b.c_D", "", false)
	f.Add("POST", "/bulk_/all", "post", "", false)
	f.Fuzz(func(t *testing.T, method, path, name, summary string, trusted bool) {
		r := risk.Assess(&risk.Call{Method: method, Path: path, Name: name, Summary: summary, Trusted: trusted})
		require.True(t, r.Level.Valid())
		require.Contains(t, risk.Operations(), r.Operation)
		require.NotEmpty(t, r.Reasons)
		require.Len(t, slices.Compact(slices.Clone(r.Flags)), len(r.Flags))
		require.True(t, r.Confidence >= 0 && r.Confidence <= 1)
	})
}

// Statements that cannot be true together are found.
func TestContradictions(t *testing.T) {
	t.Parallel()
	require.Empty(t, (*risk.Declared)(nil).Contradiction())
	require.Empty(t, (&risk.Declared{Operation: risk.Read, Flags: []risk.Flag{risk.ReturnsPII}}).Contradiction())
	require.Contains(t, (&risk.Declared{Operation: risk.Read, Flags: []risk.Flag{risk.MovesMoney}}).Contradiction(),
		"moves money")
	require.NotEmpty(t, (&risk.Declared{Level: risk.Low, Operation: risk.Delete}).Contradiction())
	for _, f := range []risk.Flag{risk.Destructive, risk.MovesMoney, risk.ChangesAccess, risk.RunsCode} {
		require.NotEmpty(t, (&risk.Declared{Level: risk.Low, Flags: []risk.Flag{f}}).Contradiction())
		require.NotEmpty(t, (&risk.Declared{Operation: risk.Read, Flags: []risk.Flag{f}}).Contradiction())
		require.Empty(t, (&risk.Declared{Level: risk.High, Flags: []risk.Flag{f}}).Contradiction())
	}
	require.Empty(t, (&risk.Declared{Level: risk.Low, Operation: risk.Create}).Contradiction())
}
