package risk_test

import (
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
		{"POST", "/repos/{owner}/{repo}/issues/{n}/comments", "issues/create-comment", risk.Medium, risk.Create,
			[]risk.Flag{risk.NotifiesPeople}},
		{"DELETE", "/repos/{owner}/{repo}", "repos/delete", risk.High, risk.Delete, []risk.Flag{risk.Destructive}},
		{"PUT", "/repos/{owner}/{repo}/pulls/{n}/merge", "pulls/merge", risk.High, risk.Update, nil},
		{"POST", "/repos/{owner}/{repo}/transfer", "repos/transfer", risk.Critical, risk.Create, nil},
		{"PUT", "/repos/{owner}/{repo}/collaborators/{user}", "repos/add-collaborator", risk.High, risk.Update,
			[]risk.Flag{risk.ChangesAccess}},
		{"POST", "/v1/refunds", "PostRefunds", risk.Critical, risk.Create, []risk.Flag{risk.MovesMoney}},
		{"GET", "/v1/refunds", "GetRefunds", risk.Low, risk.Read, nil},
		{"POST", "/v1/payment_intents/{intent}/cancel", "PostPaymentIntentsIntentCancel", risk.Critical, risk.Update,
			[]risk.Flag{risk.MovesMoney}},
		{"DELETE", "/v1/customers/{customer}", "DeleteCustomersCustomer", risk.High, risk.Delete,
			[]risk.Flag{risk.Destructive, risk.ReturnsPII}},
		{"POST", "/chat.postMessage", "chat_postMessage", risk.Medium, risk.Create, []risk.Flag{risk.NotifiesPeople}},
		{"POST", "/search.messages", "search_messages", risk.Low, risk.Read, nil},
		{"POST", "/conversations.archive", "conversations_archive", risk.High, risk.Update, nil},
		{"GET", "/admin.users.remove", "admin_users_remove", risk.High, risk.Delete, []risk.Flag{risk.Destructive}},
		{"POST", "/v1/mail/send", "mail_send", risk.High, risk.Create, []risk.Flag{risk.NotifiesPeople}},
		{"POST", "/applications/{id}/tokens", "createToken", risk.High, risk.Create,
			[]risk.Flag{risk.ChangesAccess, risk.ReturnsSecrets}},
		{"POST", "/users/bulkDelete", "users.bulkDelete", risk.Critical, risk.Delete,
			[]risk.Flag{risk.Destructive, risk.Bulk}},
		{"POST", "/actions/workflows/{id}/dispatches", "actions/create-workflow-dispatch", risk.High, risk.Create,
			[]risk.Flag{risk.RunsCode}},
		{"QUERY", "/things", "things", risk.Unknown, risk.Opaque, nil},
	} {
		r := risk.Assess(&risk.Call{Method: c.method, Path: c.path, Name: c.name})
		require.Equal(t, c.level, r.Level, "%s %s: %v", c.method, c.name, r)
		require.Equal(t, c.operation, r.Operation, "%s %s: %v", c.method, c.name, r)
		require.Subset(t, r.Flags, c.flags, "%s %s: %v", c.method, c.name, r)
		require.NotEmpty(t, r.Reasons)
	}
}

// Words do not make a call read that is declared to write, and raise its risk as they do for others.
func TestWritesAreNoReads(t *testing.T) {
	t.Parallel()
	for name, level := range map[string]risk.Level{"resolveThread": risk.Medium, "verifyDomain": risk.Medium,
		"deleteThread": risk.High, "payOrder": risk.Critical} {
		r := risk.Assess(&risk.Call{Method: "POST", Name: name, Writes: true})
		require.Equal(t, level, r.Level, name)
		require.NotEqual(t, risk.Read, r.Operation, name)
	}
	require.Equal(t, risk.Low, risk.Assess(&risk.Call{Method: "POST", Name: "resolveThread"}).Level)
}

// Names of secrets are recognised, and those of the tokens of pages are none.
func TestNamesOfSecrets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"apiToken": true, "webhook_secrets": true, "password": true,
		"nextToken": false, "nextPageToken": false, "name": false} {
		require.Equal(t, want, risk.NamesSecret(name), name)
	}
}

// A document that is not trusted raises a risk and never lowers it; operators and definitions do both.
func TestUntrustedDocumentsOnlyRaise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := risk.Call{
			Method: rapid.SampledFrom([]string{"GET", "POST", "PUT", "PATCH", "DELETE", "QUERY"}).Draw(rt, "method"),
			Path:   rapid.SampledFrom([]string{"/refunds", "/users", "/a/{b}/token", "/x"}).Draw(rt, "path"),
			Name: rapid.SampledFrom([]string{"", "getThing", "delete_all_things", "sendMessage", "searchUsers"}).Draw(rt,
				"name"),
			Scopes: rapid.SampledFrom([][]string{nil, {"users:read"}, {"admin:org"}, {"write"}}).Draw(rt, "scopes"),
		}
		before := risk.Assess(&c)
		d := risk.Declared{
			Level:     rapid.SampledFrom(append(risk.Levels(), "")).Draw(rt, "level"),
			Operation: rapid.SampledFrom(append(risk.Operations(), "")).Draw(rt, "operation"),
			Flags:     rapid.SliceOf(rapid.SampledFrom(risk.Flags())).Draw(rt, "flags"),
		}
		c.Document = &d
		after := risk.Assess(&c)
		require.False(rt, before.Level.Above(after.Level), "%v then %v", before, after)
		require.Subset(rt, after.Flags, before.Flags)
		if d.Operation == risk.Read && before.Operation != risk.Read {
			require.NotEqual(rt, risk.Read, after.Operation)
		}
		c.Document, c.Definition = nil, &d
		if d.Level != "" {
			require.Equal(rt, d.Level, risk.Assess(&c).Level)
		}
		c.Operator = &risk.Declared{Level: risk.Critical, Reason: "We say so."}
		of := risk.Assess(&c)
		require.Equal(rt, risk.Critical, of.Level)
		require.Equal(rt, "We say so.", of.Reasons[0])
		require.Equal(rt, risk.FromOperator, of.Source)
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
}
