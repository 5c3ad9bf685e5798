package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// unmeant returns ways to give a parameter that cannot be intended.
func unmeant(p parameter) []string {
	name := p.name + "="
	out := []string{p.name, name, name + "%", name + "%zz", name + "%2", name + "a;b", name + "a%00", name + "%ff", "&" +
		name + "&"}
	value := "1"
	schema := members(place(published().root, p.names))
	switch {
	case p.integer:
		out = append(out, name+"x", name+"1.5", name+"%2B1", name+"01", name+"-0", name+"1e1", name+"99999999999999999999")
	case text(schema["format"]) == "date-time":
		value = "2026-03-04T00:00:00Z"
		out = append(out, name+"x", name+"2026-03-04", name+"2026-03-04T1:00:00Z", name+"2026-03-04T00:00:00,5Z", name+
			"0000-00-00T00:00:00Z")
	case schema["enum"] != nil:
		values, _ := schema["enum"].([]any)
		value = text(values[0])
		out = append(out, name+canary, name+strings.ToUpper(value))
	}
	if p.list {
		return append(out, name+value+",", name+","+value, name+value+"&"+name)
	}
	return append(out, name+value+"&"+name+value, name+value+"&"+name)
}

// place returns what lies under the names, in lists too.
func place(v any, names []string) any {
	for _, name := range names {
		if list, ok := v.([]any); ok {
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(list) {
				return nil
			}
			v = list[i]
			continue
		}
		v = members(v)[name]
	}
	return v
}

// No parameter of any operation takes nothing, what cannot be decoded, or two values where it has one, for a value or
// for its absence.
func TestQueriesAreTakenAsSent(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		attempted := 0
		for _, s := range w.samples(f) {
			get := func(query string) response {
				return w.call(w.user(w.env), s.op.Method, s.url("", "")+"?"+query, bodyOf(s))
			}
			w.unchanged(func() {
				for _, query := range []string{"no_such_parameter", "%", "a;b", "=", "%ff=1"} {
					w.at(get(query), "query")
				}
				for _, p := range queryParameters(w, s) {
					if p.name == "ticket" {
						continue // a credential, which is refused together with another
					}
					for _, query := range unmeant(p) {
						attempted++
						w.at(get(query), "query."+p.name)
					}
				}
			})
		}
		require.Greater(w.t, attempted, 400)
	})
}

// Null is taken where the document says so and nowhere else, for every property of every body and every element of its
// lists.
func TestNullIsTakenWhereDocumented(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		var taken []func()
		refused := 0
		for _, s := range w.samples(f) {
			if s.body == nil || s.body["operation"] != nil {
				continue // an operation stands alone; a sample without one has its properties
			}
			names, _ := bodySchema(s)
			all, _ := properties(names, nil)
			w.unchanged(func() {
				require.Contains(w.t, w.callSample(w.user(w.env), s, raw("null")).violations(w), "body not_null")
				for _, p := range all {
					body := changed(w, s.body, p.path, nil, false)
					if published().schema(w.t, p.names...).Validate(nil) == nil {
						taken = append(taken, func() {
							require.NotContains(w.t, string(w.callSample(w.user(w.env), s, body).body), "not_null", "%s %s", s.op.ID,
								p.location())
						})
						continue
					}
					refused++
					require.Contains(w.t, w.callSample(w.user(w.env), s, body).violations(w), p.location()+" not_null", s.op.ID)
					if at(published().root, append(slices.Clone(p.names), "type")...) == "array" {
						body := changed(w, s.body, p.path, []any{nil}, false)
						require.Contains(w.t, w.callSample(w.user(w.env), s, body).violations(w), p.location()+"[0] not_null", s.op.ID)
					}
				}
			})
		}
		require.Greater(w.t, refused, 30)
		require.Greater(w.t, len(taken), 10)
		for _, call := range taken {
			call()
		}
	})
}

// A member that is there twice, of which a decoder would drop one, and text that a decoder would change are refused,
// for every body.
func TestBodiesAreTakenAsSent(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		doubled, replaced := 0, 0
		for _, s := range w.samples(f) {
			if s.body == nil {
				continue
			}
			w.unchanged(func() {
				good, err := json.Marshal(s.body)
				require.NoError(w.t, err)
				for name, value := range s.body {
					member, err := json.Marshal(object{name: value})
					require.NoError(w.t, err)
					twice := strings.TrimSuffix(string(good), "}") + "," + string(member[1:])
					require.Contains(w.t, w.callSample(w.user(w.env), s, raw(twice)).violations(w), "body."+name+" duplicate", s.op.ID)
					doubled++
					if _, ok := value.(string); !ok {
						continue
					}
					for _, odd := range []string{"\xff", "a\xc3", "\xed\xa0\x80", `\ud800`, `\udc00`, `\ud800A`} {
						replacement := strings.Replace(string(good), string(member[1:len(member)-1]), fmt.Sprintf(`%q:"%s"`, name, odd),
							1)
						require.NotEqual(w.t, string(good), replacement)
						require.Contains(w.t, w.callSample(w.user(w.env), s, raw(replacement)).violations(w), "body."+name+" text",
							"%s %q", s.op.ID, odd)
						replaced++
					}
				}
				w.at(w.callSample(w.user(w.env), s, raw(string(good)+"{}")), "body")
			})
		}
		require.Greater(w.t, doubled, 10)
		require.Greater(w.t, replaced, 20)
	})
}

// Every operation shows an unknown caller which credential it takes, and that a token was invalid.
func TestEveryOperationChallenges(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		const plain = `Bearer realm="sallyport"`
		for _, s := range w.samples(f) {
			refusal := at(published().root, "paths", s.op.Path, strings.ToLower(s.op.Method), "responses", "401")
			if refusal != nil || !s.op.Public {
				require.NotNil(w.t, at(refusal, "headers", "WWW-Authenticate"), s.op.ID)
			}
			if s.op.Public {
				continue
			}
			for want, c := range map[string]credentials{plain: anonymous, plain + `, error="invalid_token"`: byToken(canary,
				w.env)} {
				a := w.callSample(c, s)
				a.refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
				require.Equal(w.t, []string{want}, a.header.Values("WWW-Authenticate"), s.op.ID)
			}
			require.Equal(w.t, plain, w.callSample(byKey(canary), s).want(w, http.StatusUnauthorized).header.Get(
				"WWW-Authenticate"), s.op.ID)
		}
		a := w.call(anonymous, http.MethodPost, "/team/login", object{"email": w.email, "password": canary})
		require.Equal(w.t, plain, a.want(w, http.StatusUnauthorized).header.Get("WWW-Authenticate"))
		unsigned := w.call(anonymous, http.MethodPost, "/webhook/"+f.connection().pathToken(), object{}).want(w,
			http.StatusUnauthorized)
		require.Empty(w.t, unsigned.header.Values("WWW-Authenticate"))
	})
}

// Requests whose target is no path get the envelope, as any other, and never a redirect or a tunnel.
func TestTargetsThatAreNoPath(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		host := strings.TrimPrefix(w.base, "http://")
		for _, line := range []string{"OPTIONS *", "GET *", "CONNECT " + host, "CONNECT 127.0.0.1:443", "CONNECT " + prefix +
			"/nope", "GET http://" + host} {
			a := w.line(host, line)
			a.refused(w, http.StatusNotFound, apperr.CodeHTTP)
			require.Empty(w.t, a.header.Get("Location"), line)
		}
		a := w.line(host, "CONNECT "+prefix+"/team/me")
		a.refused(w, http.StatusMethodNotAllowed, apperr.CodeHTTP)
		require.Equal(w.t, "GET, HEAD", a.header.Get("Allow"))
		require.NotContains(w.t, w.logs.String(), `"level":"ERROR"`)
	})
}

// line makes a request by its line.
func (w *world) line(host, line string) response {
	w.t.Helper()
	var d net.Dialer
	c, err := d.DialContext(w.t.Context(), "tcp", host)
	require.NoError(w.t, err)
	_, err = io.WriteString(c, line+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	require.NoError(w.t, err)
	method, target, _ := strings.Cut(line, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	require.NoError(w.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	require.NoError(w.t, c.Close())
	a := response{method: method, path: target, status: resp.StatusCode, header: resp.Header, body: body}
	w.conforms(a)
	return a
}

// Creating a connection returns 201, or 200 where it changed an existing one, and the document lists both.
func TestBothSuccessesOfCreation(t *testing.T) {
	t.Parallel()
	responses := members(at(published().root, "paths", "/connections", "post", "responses"))
	require.NotNil(t, at(responses["201"], "headers", "Location"))
	require.NotNil(t, responses["200"])
	require.Nil(t, at(responses["200"], "headers", "Location"))
	require.Equal(t, members(responses["201"])["content"], members(responses["200"])["content"])
	each(t, func(w *world) {
		body := object{"provider": "github", "connection_id": "acme", "on_conflict": "update"}
		w.call(w.dev(), http.MethodPost, "/connections", body).want(w, http.StatusCreated)
		w.call(w.dev(), http.MethodPost, "/connections", body).want(w, http.StatusOK)
	})
}

// An unknown field that is a known one in another unit is refused with that name, so that no one guesses the unit.
func TestFieldInAnotherUnit(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		for field, want := range map[string]string{"timeout_seconds": ". Did you mean timeout_ms?",
			"timeout": ". Did you mean timeout_ms?", "patience_seconds": ""} {
			e := w.call(w.dev(), http.MethodPost, "/webhook-subscriptions", object{"event_types": []string{"*"},
				"forward_url": "http://127.0.0.1:9/", field: 5}).refused(w, http.StatusUnprocessableEntity, apperr.CodeValidation)
			require.Equal(w.t, []apperr.Detail{{Location: "body." + field, Rule: "unknown_field",
				Message: "the field is unknown" + want}}, e.Error.Details)
		}
	})
}
