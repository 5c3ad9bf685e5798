package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
)

const shopifySecret = "the client secret of an app"

// warning is a warning of a response.
type warning struct {
	Location string `json:"location"`
	Rule     string `json:"rule"`
	Message  string `json:"message"`
}

// base64OfHMAC is the signature of a body as Shopify writes it.
func base64OfHMAC(secret, body string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(body))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// shopifyOrder is a webhook of Shopify.
func shopifyOrder(topic, body string) message {
	return message{http.Header{"Content-Type": {"application/json"}, "X-Shopify-Topic": {topic},
		"X-Shopify-Webhook-Id": {id.NewUUID()}, "X-Shopify-Hmac-Sha256": {base64OfHMAC(shopifySecret, body)}}, []byte(body)}
}

// A type that the provider writes in its own way matches patterns and filters in that way and in that of events: where
// events are matched, explained, listed, tested and published. A pattern is shown as it was written.
func TestTypesAsTheProviderWritesThem(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		shop := w.connect(w.dev(), object{"provider": "shopify", "connection_id": "shop", "webhook_secret": shopifySecret})
		w.connectGitHub("acme")
		sink := newReceiver(w.t, status(200))
		subs := map[string]subscription{}
		for name, of := range map[string]object{
			"anywhere": {"event_types": []string{"orders/create"}},
			"family":   {"event_types": []string{"orders/*"}},
			"bound":    {"event_types": []string{"orders/create"}, "provider_config_key": "shopify"},
			"dotted":   {"event_types": []string{"orders.create"}, "connection_id": "shop"},
			"github":   {"event_types": []string{"orders/create"}, "provider_config_key": "github"},
			"other":    {"event_types": []string{"products/create"}},
		} {
			subs[name] = w.subscribe(sink.url, of)
			require.Equal(w.t, of["event_types"], subs[name].EventTypes)
		}
		uuid := w.fresh(shop.pathToken(), shopifyOrder("orders/create", `{"id":1}`))
		e := w.awaitEvent(uuid, "forwarded")
		require.Equal(w.t, "orders.create", e.EventType)
		takers := []string{"anywhere", "family", "bound", "dotted"}
		require.Len(w.t, e.Deliveries, len(takers))
		var explained []struct {
			SubscriptionID string  `json:"subscription_id"`
			Matches        bool    `json:"matches"`
			Pattern        *string `json:"pattern"`
		}
		w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid+"/explain", nil).want(w, http.StatusOK).into(w, &explained)
		matches := map[string]string{}
		for _, x := range explained {
			if x.Matches {
				matches[x.SubscriptionID] = *x.Pattern
			}
		}
		require.Equal(w.t, map[string]string{subs["anywhere"].ID: "orders/create", subs["family"].ID: "orders/*",
			subs["bound"].ID: "orders/create", subs["dotted"].ID: "orders.create"}, matches)

		for filter, want := range map[string]int{"orders/create": 1, "orders.create": 1, "orders/*": 1, "orders:create": 0,
			"products/*": 0} {
			require.Len(w.t, w.events("&event_type="+url.QueryEscape(filter)), want, filter)
		}
		w.call(w.dev(), http.MethodGet, "/webhook-events?event_type=orders%2Fcr*", nil).refused(w,
			http.StatusUnprocessableEntity, apperr.CodeValidation)
		for _, wide := range []string{"/*", "*/", "orders/*/"} {
			w.call(w.dev(), http.MethodGet, "/webhook-events?event_type="+url.QueryEscape(wide), nil).refused(w,
				http.StatusUnprocessableEntity, apperr.CodeValidation)
			for _, of := range []object{{}, {"provider_config_key": "shopify"}} {
				w.call(w.dev(), http.MethodPost, "/webhook-subscriptions", merged(object{"event_types": []string{wide},
					"forward_url": sink.url}, of)).refused(w, http.StatusUnprocessableEntity, apperr.CodeValidation)
			}
		}
		var preview struct {
			Matched int64 `json:"matched"`
		}
		w.call(w.dev(), http.MethodPost, "/webhook-replays", object{"dry_run": true, "force": true, "filter": object{
			"event_type": []string{"orders/create"}}}).want(w, http.StatusOK).into(w, &preview)
		require.EqualValues(w.t, 1, preview.Matched)

		for name, of := range map[string]struct {
			kind, sent string
			matches    bool
		}{
			"anywhere": {"orders/create", "orders.create", true}, "bound": {"orders.create", "orders.create", true},
			"dotted": {"orders/create", "orders.create", true}, "other": {"orders/create", "orders.create", false},
			"family": {"orders/paid", "orders.paid", true}, "github": {"orders.create", "orders.create", false},
		} {
			made := w.trial(subs[name], object{"event_type": of.kind, "dry_run": true})
			require.Equal(w.t, of.matches, made.WouldMatch, name)
			require.Equal(w.t, of.sent, made.EventType, name)
			require.Equal(w.t, of.sent, made.Request.Headers["sallyport-event-type"], name)
		}

		publish := func(body object) response { return w.call(w.dev(), http.MethodPost, "/webhook-events", body) }
		var published receipt
		publish(object{"event_type": "orders/create", "data": object{}, "connection_id": "shop"}).want(w,
			http.StatusCreated).into(w, &published)
		require.Equal(w.t, "orders.create", w.awaitEvent(published.EventUUID, "forwarded").EventType)
		for _, body := range []object{{"event_type": "orders/create", "data": object{}},
			{"event_type": "orders/create", "data": object{}, "connection_id": "acme"},
			{"event_type": "sallyport/made", "data": object{}, "connection_id": "shop"}} {
			publish(body).refused(w, http.StatusUnprocessableEntity, apperr.CodeValidation)
		}
	})
}

// A pattern that no type of the subscription's provider fits gets a warning and no error, when it is created and
// changed, and in a test. The providers of a subscription without one are those that are connected; if nothing is known
// of one of them, only a pattern is pointed out that is nearly one of another's.
func TestWarningsAboutPatterns(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connect(w.dev(), object{"provider": "shopify", "connection_id": "shop", "webhook_secret": shopifySecret})
		sink := newReceiver(w.t, status(200))
		warned := func(method, path string, want int, body object) (locations []string, subscriptionID string) {
			var made struct {
				ID       string    `json:"id"`
				Warnings []warning `json:"warnings"`
			}
			w.call(w.dev(), method, path, body).want(w, want).into(w, &made)
			for _, one := range made.Warnings {
				require.Equal(w.t, "known_type", one.Rule)
				require.Contains(w.t, one.Message, "Shopify")
				locations = append(locations, one.Location)
			}
			return locations, made.ID
		}
		create := func(of object) ([]string, string) {
			return warned(http.MethodPost, "/webhook-subscriptions", http.StatusCreated, merged(object{"forward_url": sink.url},
				of))
		}
		patterns := []string{"orders/create", "order/create", "orders/*", "*.create", "orders", "sallyport.*", "unknown", "*"}
		got, sub := create(object{"event_types": patterns, "provider_config_key": "shopify"})
		require.Equal(w.t, []string{"event_types[1]", "event_types[4]"}, got)
		got, _ = create(object{"event_types": patterns, "connection_id": "shop"})
		require.Equal(w.t, []string{"event_types[1]", "event_types[4]"}, got)
		got, _ = create(object{"event_types": patterns})
		require.Equal(w.t, []string{"event_types[1]", "event_types[4]"}, got, "Shopify is all that is connected")
		for filter, want := range map[string][]string{`event.type == "orders/create"`: {"filter"},
			`event.type == "orders.create" && event.body.topic == "orders/create"`: nil} {
			got, _ = create(object{"event_types": []string{"*"}, "connection_id": "shop", "filter": filter})
			require.Equal(w.t, want, got, filter)
		}
		got, _ = create(object{"event_types": []string{"order/create"}, "provider_config_key": "generic-hmac"})
		require.Empty(w.t, got, "nothing is known of its types")

		item := "/webhook-subscriptions/" + sub
		got, _ = warned(http.MethodPatch, item, http.StatusOK, object{"event_types": []string{"orders.made"}})
		require.Equal(w.t, []string{"event_types[0]"}, got)
		got, _ = warned(http.MethodPost, item+"/test", http.StatusOK, object{"event_type": "orders.made", "dry_run": true})
		require.Equal(w.t, []string{"event_types[0]", "event_type"}, got)
		got, _ = warned(http.MethodPost, item+"/test", http.StatusOK, object{"dry_run": true})
		require.Equal(w.t, []string{"event_types[0]"}, got)
		_, everywhere := create(object{"event_types": []string{"*"}})
		everywhere = "/webhook-subscriptions/" + everywhere + "/test"
		got, _ = warned(http.MethodPost, everywhere, http.StatusOK, object{"event_type": "orders.made", "dry_run": true})
		require.Equal(w.t, []string{"event_type"}, got)
		w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "own", "webhook_secret": shopifySecret})
		got, _ = create(object{"event_types": append(patterns, "Orders/*", "order.made")})
		require.Equal(w.t, []string{"event_types[1]", "event_types[4]", "event_types[8]"}, got,
			"what is nearly a type of Shopify's is; any other type can come from the other provider")
		got, _ = warned(http.MethodPost, everywhere, http.StatusOK, object{"event_type": "orders.made", "dry_run": true})
		require.Empty(w.t, got)
		w.call(w.dev(), http.MethodPatch, item, object{"event_types": []string{"orders/cr*"}}).refused(w,
			http.StatusUnprocessableEntity, apperr.CodeValidation)
		w.call(w.dev(), http.MethodPatch, item, object{"event_types": []string{"orders:*"}}).refused(w,
			http.StatusUnprocessableEntity, apperr.CodeValidation)
	})
}

// A subscription to raw webhooks of a provider whose signature the receiver cannot verify in every attempt gets a
// warning that says why, with the provider named or with all that are connected.
func TestWarningsAboutSignatures(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(200))
		rules := func(of object) (list []string) {
			var made struct {
				Warnings []warning `json:"warnings"`
			}
			body := merged(object{"forward_url": sink.url, "event_types": []string{"*"}, "payload_mode": "raw"}, of)
			w.call(w.dev(), http.MethodPost, "/webhook-subscriptions", body).want(w, http.StatusCreated).into(w, &made)
			for _, one := range made.Warnings {
				require.Equal(w.t, "payload_mode", one.Location)
				list = append(list, one.Rule)
			}
			return list
		}
		require.Empty(w.t, rules(nil))
		for key, want := range map[string][]string{"stripe": {"signature_age"}, "slack": {"signature_age"},
			"standard-webhooks": {"signature_replaced"}, "mailgun": {"signature_removed"},
			"microsoft-graph": {"signature_removed"}, "notion": nil, "github": nil} {
			require.Equal(w.t, want, rules(object{"provider_config_key": key}), key)
			require.Empty(w.t, rules(object{"provider_config_key": key, "payload_mode": "envelope"}), key)
		}
		for _, slug := range []string{"github", "stripe"} {
			w.connect(w.dev(), object{"provider": slug, "connection_id": "acme", "webhook_secret": "a secret of the provider"})
		}
		require.Equal(w.t, []string{"signature_age"}, rules(nil))
		require.Equal(w.t, []string{"signature_age"}, rules(object{"connection_id": "acme"}))
	})
}

// A subscription that can never match says so when it is made: a filter that compares with a type as the provider
// writes it, a pattern that is none for the providers of its connection, and a type that the gateway does not emit.
func TestWarningsAboutWhatNeverMatches(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connect(w.dev(), object{"provider": "shopify", "connection_id": "shop", "webhook_secret": shopifySecret})
		w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "own", "webhook_secret": shopifySecret})
		sink := newReceiver(w.t, status(200))
		for _, of := range []struct {
			made     object
			location string
			message  string
		}{
			{object{"event_types": []string{"*"}, "connection_id": "shop", "filter": "event.type == 'orders/create'"}, "filter",
				"is orders.create"},
			{object{"event_types": []string{"*"}, "connection_id": "shop", "filter": `event.type == "orders/create"`}, "filter",
				"is orders.create"},
			{object{"event_types": []string{"*"}, "connection_id": "shop", "filter": "event.type == 'orders.create'"}, "", ""},
			{object{"event_types": []string{"*"}, "connection_id": "shop",
				"filter": `event.headers["X-Shopify-Topic"] == "orders/create"`}, "filter",
				`write event.headers["x-shopify-topic"]`},
			{object{"event_types": []string{"a/*"}, "connection_id": "own"}, "event_types[0]", "no event can match"},
			{object{"event_types": []string{"orders/*"}, "connection_id": "shop"}, "", ""},
			{object{"event_types": []string{"sallyport.subscription.disable"}, "provider_config_key": "sallyport"},
				"event_types[0]", "Did you mean sallyport.subscription.disabled?"},
			{object{"event_types": []string{"connection.*"}}, "event_types[0]", "Did you mean sallyport.connection.*?"},
			{object{"event_types": []string{"sallyport.subscription.*"}}, "", ""},
			{object{"event_types": []string{"sallyport.subscription.disabled"}}, "", ""},
		} {
			var made struct {
				Warnings []warning `json:"warnings"`
			}
			w.call(w.dev(), http.MethodPost, "/webhook-subscriptions", merged(object{"forward_url": sink.url}, of.made)).want(w,
				http.StatusCreated).into(w, &made)
			if of.location == "" {
				require.Empty(w.t, made.Warnings, "%v", of.made)
				continue
			}
			require.Len(w.t, made.Warnings, 1, "%v", of.made)
			require.Equal(w.t, of.location, made.Warnings[0].Location)
			require.Contains(w.t, made.Warnings[0].Message, of.message)
		}
	})
}

// The types that providers are known to send can be listed, in both forms, page by page, and by provider.
func TestTypesOfProviders(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		type row struct {
			Provider  string `json:"provider"`
			EventType string `json:"event_type"`
			WrittenAs string `json:"written_as"`
		}
		page := func(query string) (list []row, next string) {
			a := w.call(w.dev(), http.MethodGet, "/webhook-events/types?"+query, nil).want(w, http.StatusOK)
			a.into(w, &list)
			return list, a.header.Get("X-Next-Cursor")
		}
		var all []row
		const first = "provider=shopify,dropbox&limit=50"
		list, next := page(first)
		for all = list; next != ""; all = append(all, list...) {
			list, next = page(first + "&cursor=" + next)
		}
		require.Equal(w.t, row{"dropbox", "delta", "delta"}, all[0])
		require.Contains(w.t, all, row{"shopify", "orders.create", "orders/create"})
		require.Greater(w.t, len(all), 200)
		backwards, _ := page("provider=shopify&order=desc&limit=1")
		require.Equal(w.t, all[len(all)-1], backwards[0])
		none, _ := page("provider=generic-hmac")
		require.Empty(w.t, none)
		for key, want := range map[string]string{"githb": "github", "forgejo": "gitea"} {
			e := w.call(w.dev(), http.MethodGet, "/webhook-events/types?provider="+key, nil).refused(w,
				http.StatusUnprocessableEntity, apperr.CodeValidation)
			require.Equal(w.t, []apperr.Detail{{Location: "query.provider[0]", Rule: "exists",
				Message: "there is no provider \"" + key + "\". Did you mean " + want + "?"}}, e.Error.Details)
		}
	})
}

// Shopify's own library signs what is received as orders/create and reaches the subscription with that pattern, in the
// bytes and with the headers that the library accepts. So it does with a sample.
func TestShopifysLibrary(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	dir := nodePeer(t, "shopify-api")
	each(t, func(w *world) {
		peer := startPeer(w.t, dir, "peer.mjs", shopifySecret)
		var ready bool
		peer.hear(&ready)
		const body = `{"id":820982911946154508,"name":"#9999","note":"Größe \u00e4"}`
		sign := func(topic string) message {
			peer.say(object{"sign": object{"body": body, "topic": topic, "id": id.NewUUID()}})
			var headers map[string]string
			peer.hear(&headers)
			m := message{http.Header{}, []byte(body)}
			for name, value := range headers {
				m.header.Set(name, value)
			}
			return m
		}
		type verdict struct {
			Valid  bool   `json:"valid"`
			Topic  string `json:"topic"`
			Domain string `json:"domain"`
		}
		validate := func(header http.Header, body string) (out verdict) {
			headers := map[string]string{}
			for name := range header {
				headers[name] = header.Get(name)
			}
			peer.say(object{"validate": object{"body": body, "headers": headers}})
			peer.hear(&out)
			return out
		}
		sink := newReceiver(w.t, status(200))
		w.subscribe(sink.url, object{"event_types": []string{"orders/create"}, "payload_mode": "raw"})
		shop := w.connect(w.dev(), object{"provider": "shopify", "connection_id": "shop", "webhook_secret": shopifySecret})

		m := sign("orders/create")
		require.True(w.t, validate(m.header, body).Valid)
		require.Equal(w.t, "orders.create", w.awaitEvent(w.fresh(shop.pathToken(), m), "forwarded").EventType)
		w.fresh(shop.pathToken(), sign("orders/paid"))
		got := sink.all()
		require.Len(w.t, got, 1)
		require.Equal(w.t, body, string(got[0].body))
		require.Equal(w.t, "orders.create", got[0].header.Get("Sallyport-Event-Type"))
		require.Equal(w.t, verdict{true, "ORDERS_CREATE", "acme.myshopify.com"},
			validate(got[0].header, string(got[0].body)))
		require.False(w.t, validate(got[0].header, body+" ").Valid)
		var sample sampleSent
		w.call(w.dev(), http.MethodPost, "/connections/shopify/shop/webhook-sample", object{"event_type": "orders/create"}).
			want(w, http.StatusCreated).into(w, &sample)
		require.Equal(w.t, "orders.create", sample.EventType)
		w.awaitEvent(sample.EventUUID, "forwarded")
		got = sink.wait(w.t, 2)
		require.Equal(w.t, verdict{true, "ORDERS_CREATE", "sample.myshopify.com"},
			validate(got[1].header, string(got[1].body)))
		forged := sign("orders/create")
		forged.body = append(forged.body, ' ')
		w.post(shop.pathToken(), forged).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
	})
}
