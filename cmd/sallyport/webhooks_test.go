package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit"
)

const standardSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

func hexMAC(secret, body string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(body))
	return hex.EncodeToString(h.Sum(nil))
}

// saved writes a request to a file of the test's own and returns the file's path.
func saved(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "saved.http")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// fromGitHub is a request as GitHub sends it, signed over signedBody.
func fromGitHub(secret, signedBody, body string) string {
	return "POST /api/v1/webhook/x HTTP/1.1\r\nHost: gateway.example\r\nContent-Type: " +
		"application/json\r\nX-GitHub-Event: issues\r\n" +
		"X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958\r\nX-Hub-Signature-256: sha256=" +
		hexMAC(secret, signedBody) + "\r\n\r\n" + body
}

// A saved request is verified as a server would, with a running server and without one. The output names the secret and
// the event, or the reason and its cause. No secret and no right signature is shown.
func TestWebhooksVerify(t *testing.T) {
	t.Parallel()
	const body, other = `{"action":"opened","n":1}`, "another secret that GitHub has"
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"connections"))
		made := s.make(t, "/connections", key, map[string]any{"provider": "github", "connection_id": "repo",
			"webhook_secret": githubSecret})
		s.make(t, "/connections/github/repo/webhook-secrets", key, map[string]any{"secret": "the next secret of GitHub",
			"label": "rotation"})
		webhookURL, _ := made["webhook_url"].(string)

		// verify gives the verdict on a request, which must be that of the server.
		verify := func(code int, text string, args ...string) operator.WebhookVerdict {
			t.Helper()
			r := in.run(t, append([]string{"webhooks", "verify", "--json", "--connection", "github/repo", "--request",
				saved(t, text)}, args...)...)
			require.Equal(t, code, r.code, "%s%s", r.out, r.stderr)
			require.Empty(t, r.stderr)
			shown := in.run(t, append([]string{"webhooks", "verify", "--connection", "github/repo", "--request", saved(t, text)},
				args...)...)
			require.Equal(t, code, shown.code)
			for _, secret := range []string{githubSecret, "the next secret", other, hexMAC(githubSecret, body)} {
				require.NotContains(t, r.out+shown.out, secret)
			}
			v := decode[operator.WebhookVerdict](t, r.out)
			require.Equal(t, v.Accepted, code == exitOK)
			require.Equal(t, strings.HasPrefix(shown.out, "verified "), v.Verified, shown.out)
			return v
		}
		answered := func(text string) int {
			t.Helper()
			head, content, _ := strings.Cut(text, "\r\n\r\n")
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, webhookURL, strings.NewReader(content))
			require.NoError(t, err)
			r.URL.Host = strings.TrimPrefix(s.base, "http://")
			for _, line := range strings.Split(head, "\r\n")[2:] {
				name, value, _ := strings.Cut(line, ": ")
				r.Header.Set(name, value)
			}
			status, _ := send(t, r)
			return status
		}

		good := fromGitHub(githubSecret, body, body)
		v := verify(exitOK, good)
		require.Equal(t, http.StatusOK, answered(good))
		require.Equal(t, "hmac", v.Scheme)
		require.Equal(t, &operator.WebhookEvent{
			Types: []string{"issues.opened"}, ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", IDSource: "header:x-github-delivery",
		}, v.Event)
		require.Empty(t, v.Secret.Label)
		require.Equal(t, githubSecret[len(githubSecret)-4:], v.Secret.Hint)
		require.Equal(t, "production", v.Connection.Environment)
		require.Equal(t, made["uuid"], v.Connection.UUID)
		require.Equal(t, "rotation", verify(exitOK, fromGitHub("the next secret of GitHub", body, body)).Secret.Label)

		spaced := fromGitHub(githubSecret, body, `{"action": "opened", "n": 1}`)
		v = verify(exitFailed, spaced)
		require.Equal(t, http.StatusUnauthorized, answered(spaced))
		require.Equal(t, []string{"signature_mismatch", "body_rewritten"}, []string{v.Refusal.Reason, v.Refusal.Cause})
		wrong := fromGitHub(other, body, body)
		v = verify(exitFailed, wrong)
		require.Equal(t, http.StatusUnauthorized, answered(wrong))
		require.Equal(t, []string{"signature_mismatch", "secret_wrong"}, []string{v.Refusal.Reason, v.Refusal.Cause})
		require.Nil(t, v.Secret)
		require.Nil(t, v.Event)
		unsigned := strings.Replace(good, "X-Hub-Signature-256", "X-Hub-Signature", 1)
		v = verify(exitFailed, unsigned)
		require.Equal(t, http.StatusUnauthorized, answered(unsigned))
		require.Equal(t, []string{"signature_missing", "header_other"}, []string{v.Refusal.Reason, v.Refusal.Cause})
		require.Equal(t, "method_not_allowed", verify(exitFailed, strings.Replace(good, "POST", "GET", 1)).Refusal.Reason)
		require.Equal(t, "payload_too_large", verify(exitFailed, good, "--webhook-max-body-bytes=5").Refusal.Reason)

		// The file's line ends and what an editor added to it do not count; a change does.
		require.True(t, verify(exitOK, strings.ReplaceAll(good, "\r\n", "\n")).Verified)
		v = verify(exitOK, strings.Replace(good, "\r\n\r\n", "\r\nContent-Length: 25\r\n\r\n", 1)+"\n")
		require.Contains(t, v.Notes[0], "line break after the 25 bytes")

		// The connection by its other names, the request in parts and from standard input, and without the server.
		s.stop()
		for _, name := range []string{webhookURL, webhookURL[strings.LastIndexByte(webhookURL, '/')+1:], "repo"} {
			require.Equal(t, exitOK, in.run(t, "webhooks", "verify", "--connection", name, "--request", saved(t, good)).code,
				name)
		}
		head, _, _ := strings.Cut(good, "\r\n\r\n")
		_, headers, _ := strings.Cut(head, "\r\n")
		parts := []string{"webhooks", "verify", "--connection=github/repo", "--environment=production", "--headers",
			saved(t, headers), "--body"}
		require.Equal(t, exitOK, in.run(t, append(parts, saved(t, body))...).code)
		require.Equal(t, exitFailed, in.run(t, append(parts, saved(t, body+"\n"))...).code)
		require.Equal(t, exitOK, in.call(t,
			command{stdin: good, args: []string{"webhooks", "verify", "--connection=github/repo", "--request=-"}}).code)

		var matched int
		require.NoError(t, in.open(t).Read().QueryRowContext(t.Context(),
			"SELECT count(*) FROM connection_secrets WHERE last_matched_ms IS NOT NULL").Scan(&matched))
		require.LessOrEqual(t, matched, 1, "only the server notes a match")
	})
}

// A delivery is as old as --at says; where age is the error that is reported, with the time that it was counted to.
func TestWebhooksVerifyAge(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"connections"))
		s.make(t, "/connections", key, map[string]any{"provider": "standard-webhooks", "connection_id": "c",
			"webhook_secret": standardSecret})
		signer, err := standardwebhooks.NewWebhook(standardSecret)
		require.NoError(t, err)
		at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		signature, err := signer.Sign("msg_1", at, []byte(`{"type":"a.b"}`))
		require.NoError(t, err)
		file := saved(t, "POST / HTTP/1.1\nwebhook-id: msg_1\nwebhook-timestamp: 1772600767\nwebhook-signature: "+signature+
			"\n\n"+`{"type":"a.b"}`)
		run := func(args ...string) result {
			return in.call(t, command{clock: clock.NewManual(at.Add(time.Hour)),
				args: append([]string{"webhooks", "verify", "--connection=c", "--request", file}, args...)})
		}
		for _, received := range []string{"2026-03-04T05:06:07Z", "2026-03-04T06:11:07+01:00", "1772600767"} {
			r := run("--at", received)
			require.Equal(t, exitOK, r.code, r.out)
			require.Contains(t, r.out, "type        a.b (signed)\nid          msg_1 from header:webhook-id (signed)\n")
		}
		r := run()
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.out, "rejected    timestamp_out_of_range\n")
		require.Contains(t, r.out, "diagnosis   clock\n")
		require.Contains(t, r.out, "The age was counted to 2026-03-04T06:06:07Z. For a request that was saved earlier say "+
			"with --at when it was received.")
		require.NotContains(t, r.out, signature[3:])
	})
}

// The report on a second delivery with the same body and no id follows the settings of the connection and its provider.
func TestWebhooksVerifyDuplicates(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"connections"))
		file := saved(t, "POST / HTTP/1.1\nX-Signature: "+hexMAC(githubSecret, "{}")+"\nX-Dropbox-Signature: "+
			hexMAC(githubSecret, "{}")+"\n\n{}")
		for i, c := range []struct {
			provider string
			webhook  map[string]any
			want     string
		}{
			{"generic-hmac", map[string]any{}, "none: every request is a new event, also with an equal body"},
			{"generic-hmac", map[string]any{"dedupe_window_seconds": 90}, "none: the same body within 1m30s is a duplicate"},
			{"generic-hmac", map[string]any{"dedupe_window_seconds": 0},
				"none: every request is a new event, also with an equal body"},
			{"dropbox", map[string]any{}, "none: every request is a new event, also with an equal body"},
			{"dropbox", map[string]any{"dedupe_window_seconds": 60}, "none: the same body within 1m0s is a duplicate"},
		} {
			name := fmt.Sprint("c", i)
			s.make(t, "/connections", key, map[string]any{"provider": c.provider, "connection_id": name,
				"webhook_secret": githubSecret, "webhook": c.webhook})
			r := in.run(t, "webhooks", "verify", "--connection", name, "--request", file)
			require.Equal(t, exitOK, r.code, r.out)
			require.Contains(t, r.out, "\nid          "+c.want, c.provider)
		}
	})
}

// Networks that senders have to be in are compared with the address that is named, and that none was compared is said.
func TestWebhooksVerifyNetworks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		definitions := write(t, filepath.Join(t.TempDir(), "definitions"), "acme.yaml", acme+
			"  source_ips: [\"192.0.2.0/24\"]\n")
		s := in.serve(t, clock.System(), "--providers-dir="+definitions)
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"connections"))
		s.make(t, "/connections", key, map[string]any{"provider": "acme", "connection_id": "c",
			"webhook_secret": githubSecret, "webhook": map[string]any{"source_cidrs": []string{"192.0.2.128/25"}}})
		file := saved(t, "POST / HTTP/1.1\nX-Acme-Signature: "+hexMAC(githubSecret, "{}")+"\n\n{}")
		run := func(args ...string) operator.WebhookVerdict {
			t.Helper()
			r := in.run(t, append([]string{"webhooks", "verify", "--json", "--connection=acme/c", "--providers-dir=" +
				definitions, "--request", file}, args...)...)
			require.Empty(t, r.stderr)
			return decode[operator.WebhookVerdict](t, r.out)
		}
		v := run()
		require.True(t, v.Verified)
		require.Contains(t, v.Notes[0], "--remote-ip")
		require.Equal(t, "folder", string(v.Connection.Source))
		v = run("--remote-ip=192.0.2.129")
		require.True(t, v.Verified)
		require.Empty(t, v.Notes)
		require.Equal(t, "source_refused", run("--remote-ip=192.0.2.1").Refusal.Reason)
		require.Equal(t, "source_refused", run("--remote-ip=198.51.100.1").Refusal.Reason)

		// A definition that the stored secret does not fit refuses everything, and the output distinguishes this from a bad
		// signature.
		write(t, definitions, "acme.yaml", strings.Replace(acme, "utf8", "hex", 1))
		v = run()
		require.False(t, v.Accepted)
		require.Contains(t, strings.Join(v.Notes, "\n"), "do not fit the provider's definition")
		require.NotContains(t, strings.Join(v.Notes, "\n"), githubSecret)
	})
}

// An input that cannot be read ends with code 2 and a sentence, and never looks like a refusal.
func TestWebhooksVerifyMisuse(t *testing.T) {
	t.Parallel()
	testkit.EachServer(t, func(t *testing.T, url, dir string) {
		in := installation{url: url, dir: filepath.Join(dir, "data")}
		in.setUp(t)
		s := in.serve(t, clock.System())
		for _, environment := range []string{"production", "development"} {
			key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", environment, "--routes",
				"connections"))
			s.make(t, "/connections", key, map[string]any{"provider": "github", "connection_id": "both",
				"webhook_secret": githubSecret, "webhook": map[string]any{"alias": "in-" + environment}})
		}
		good := saved(t, fromGitHub(githubSecret, "{}", "{}"))
		big := saved(t, "POST / HTTP/1.1\n\n"+string(bytes.Repeat([]byte("x"), maxSaved)))
		for args, want := range map[string]string{
			"--connection=github/both --request=" +
				good: "several environments have such a connection (development, production)",
			"--connection=github/none --request=" + good:                             "connection",
			"--connection=none --request=" + good:                                    "connection",
			"--connection=in-production --environment=development --request=" + good: "connection",
			"--connection=github/both --environment=nowhere --request=" + good:       "environment",
			"--connection=github/both --request=" + dir + "/none":                    "read the request",
			"--connection=github/both --request=" + saved(t, "hunter2"):              "line 1 is not a request line",
			"--connection=github/both --request=" + big:                              "is larger than",
			"--connection=github/both":                                               "give --request, or --headers with --body",
			"--connection=github/both --request=a --headers=b":                       "give --request, or --headers with --body",
			"--connection=github/both --request=a --body=b":                          "give --request, or --headers with --body",
			"--connection=github/both --request=a --at=yesterday": "must be a time such as " +
				"2026-03-04T05:06:07Z",
			"--connection=github/both --request=a --remote-ip=here": "remote-ip",
			"--request=a": "missing flags: --connection=NAME",
			"--connection=github/both --providers-dir=" + dir + "/none --request=" + good: "provider definitions",
			"--connection=github/both --keyset-file=" + dir + "/none --request=" + good:   "keyset",
		} {
			r := in.run(t, append([]string{"webhooks", "verify"}, strings.Fields(args)...)...)
			require.Equal(t, exitUsage, r.code, "%s: %s%s", args, r.out, r.stderr)
			require.Empty(t, r.out, args)
			require.Contains(t, r.stderr, want, args)
			require.NotContains(t, r.stderr, "hunter2")
			require.NotContains(t, r.stderr, "database", "the database is not at fault: %s", args)
		}
		for _, environment := range []string{"production", "development"} {
			require.Equal(t, exitOK, in.run(t, "webhooks", "verify", "--connection=github/both", "--environment", environment,
				"--request", good).code)
			require.Equal(t, exitOK, in.run(t, "webhooks", "verify", "--connection=in-"+environment, "--request", good).code)
		}
	})
}

// A delivery's own values are on one line, with any content: none can look like a verdict.
func TestVerdictOnOneLine(t *testing.T) {
	t.Parallel()
	event := &operator.WebhookEvent{Types: []string{"unknown"}, ID: "1\nverified    hmac\x1b[2K"}
	text := visible(verdictText(&operator.WebhookVerdict{Accepted: true, Event: event}))
	require.NotContains(t, text, "\nverified")
	require.NotContains(t, text, "\x1b")
}
