package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/stretchr/testify/require"
)

// plantLinks enters secrets on the pages of links, against a provider that responds in each way. The link is a secret,
// too, which only the response that makes it shows, and the page in the address of its own form.
func (c *custody) plantLinks() {
	c.t.Helper()
	for _, reply := range custodyReplies() {
		id := "link-" + reply
		status, text := c.send(c.key, http.MethodPost, "/connections", object{"provider": "custody", "connection_id": id,
			"auth_mode": "bearer", "connect": object{"state": "s"}, "connection_config": object{
				"base_url": c.peer + "/" + reply}}, "connect_url")
		require.Equal(c.t, http.StatusCreated, status, "%s", text)
		var made struct {
			ConnectURL string `json:"connect_url"`
		}
		require.NoError(c.t, json.Unmarshal(text, &made))
		_, token, found := strings.Cut(made.ConnectURL, "/connect/")
		require.True(c.t, found)
		c.marks.made("the token of a link, "+reply, token)
		browser := newSurfer(c.t, c.base)
		c.sawPage(browser.do(http.MethodGet, made.ConnectURL, nil), token)
		for _, form := range []url.Values{
			{"mode": {"bearer"}, "credential.token": {c.marks.at("entered without a setting, " + reply)}},
			{"mode": {"bearer"}, "credential.token": {c.marks.at("entered on a page, " + reply)},
				"config.tenant": {c.marks.at("a secret setting on a page, " + reply)}},
		} {
			c.sawPage(browser.do(http.MethodPost, made.ConnectURL, form), token)
		}
		c.send(c.key, http.MethodGet, "/connections/custody/"+id, nil)
		c.send(c.key, http.MethodPost, "/connections/custody/"+id, object{"operation": "reconnect"}, "connect_url")
	}
	c.plantSignIns()
}

// plantSignIns enters secrets on the page that asks for whom a link is, and goes on to an identity provider.
func (c *custody) plantSignIns() {
	c.t.Helper()
	var me struct {
		User struct{ ID string } `json:"user"`
	}
	_, text := c.send(c.user, http.MethodGet, "/team/me", nil)
	require.NoError(c.t, json.Unmarshal(text, &me))
	status, text := c.send(c.key, http.MethodPost, "/connections", object{"provider": "custody",
		"connection_id": "link-of-a-member", "auth_mode": "bearer", "connect": object{"user_id": me.User.ID},
		"connection_config": object{"base_url": c.peer}}, "connect_url")
	require.Equal(c.t, http.StatusCreated, status, "%s", text)
	var made struct {
		ConnectURL string `json:"connect_url"`
	}
	require.NoError(c.t, json.Unmarshal(text, &made))
	_, token, _ := strings.Cut(made.ConnectURL, "/connect/")
	c.marks.made("the token of a member's link", token)
	sso := c.made(c.user, "/team/sso", object{"name": "Company of pages", "issuer": "https://login.example.test",
		"client_id": "pages", "client_secret": c.marks.at("an SSO client secret of pages"), "enabled": true}, "id")
	browser := newSurfer(c.t, c.base)
	c.sawPage(browser.do(http.MethodGet, made.ConnectURL, nil), token)
	for _, form := range []url.Values{
		{"sign_in": {"password"}, "email": {"ada@example.test"}, "password": {c.marks.at("a password on a page")},
			"totp": {c.marks.at("a code on a page")}},
		{"mode": {"bearer"}, "credential.token": {c.marks.at("entered before a sign-in on a page")}},
		{"sign_in": {"sso:" + sso}},
	} {
		c.sawPage(browser.do(http.MethodPost, made.ConnectURL, form), token)
	}
	c.send(c.user, http.MethodDelete, "/team/sso/"+sso, nil)
}

// sawPage keeps a page of a link without the address of its own form.
func (c *custody) sawPage(p page, token string) {
	c.t.Helper()
	require.NotZero(c.t, p.status)
	c.saw("a page of a link", []byte(strings.ReplaceAll(p.text, "/connect/"+token, "")))
}
