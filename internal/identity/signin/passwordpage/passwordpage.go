// Package passwordpage serves the pages on which a user who has opened a mailed link chooses a password.
package passwordpage

import (
	"html/template"
	"net/http"

	"sallyport/internal/platform/httpapi"
)

// contentSecurityPolicy lets a page run our script and talk to this origin, and nothing else.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; " +
	"base-uri " +
	"'none'; form-action 'none'"

// ScriptPath is the path of the script of every page.
const ScriptPath = "/password.js"

// document is the page. Its script posts the password with the token after the #, which the browser sends to no server.
const document = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Title}} – Sallyport</title>
</head>
<body>
<h1>{{.Title}}</h1>
<form data-post="{{.Post}}" data-done="{{.Done}}">
<p><label>Password, at least 12 characters<br>
<input name="password" type="password" autocomplete="new-password" minlength="12" maxlength="256" required></label></p>
<p><button>{{.Title}}</button></p>
</form>
<p><output></output></p>
<noscript>This page needs JavaScript.</noscript>
<script src="` + ScriptPath + `"></script>
</body>
</html>
`

// script takes the token out of the address first, so that it stays in no history. A token whose place is in the path
// goes there.
const script = `"use strict";
const form = document.querySelector("form"), says = document.querySelector("output"), token = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
if (!token) says.textContent = "This address is not complete. Open the link again as you got it.";
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = {password: form.elements.password.value};
  const path = form.dataset.post.replace("{token}", encodeURIComponent(token));
  if (path === form.dataset.post) body.token = token;
  try {
    const response = await fetch(path, {method: "POST", credentials: "omit", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
    if (response.ok) {
      form.hidden = true;
      says.textContent = form.dataset.done;
      return;
    }
    const error = (await response.json()).error;
    const gone = response.status === 401 || response.status === 404;
    says.textContent = gone ? "This link does not work any more." : (error.details || [{message: error.message}]).map((d) => d.message).join("; ");
  } catch {
    says.textContent = "The server cannot be reached. Try again.";
  }
});
`

// Handler serves a page with a title. Its script posts the password to an operation with this path, and then shows
// done.
func Handler(title, path, done string) http.Handler {
	t := template.Must(template.New("page").Parse(document))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		setHeaders(w, "text/html; charset=utf-8")
		// the client is gone when this fails
		_ = t.Execute(w, map[string]string{"Title": title, "Post": httpapi.Prefix + path, "Done": done})
	})
}

// Script serves the script of every page.
func Script(w http.ResponseWriter, _ *http.Request) {
	setHeaders(w, "text/javascript; charset=utf-8")
	_, _ = w.Write([]byte(script)) // the client is gone when this fails
}

func setHeaders(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Security-Policy", contentSecurityPolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-cache")
}
