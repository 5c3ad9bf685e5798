// Package samples writes programs that send one request to the API, in the languages of the reference. Each program is
// complete: it reads the server and the credential from the environment, prints the response and fails on an error.
package samples

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Names of the environment variables that the programs read. The first two are those of the commands.
const (
	serverVariable      = "SALLYPORT_SERVER"
	keyVariable         = "SALLYPORT_API_KEY"
	tokenVariable       = "SALLYPORT_ACCESS_TOKEN"
	environmentVariable = "SALLYPORT_ENVIRONMENT_ID"
)

// Credential is the way in which a request authenticates.
type Credential int

// The credentials.
const (
	// None is for operations that everyone may call.
	None Credential = iota
	// Key is an API key.
	Key
	// User is the access token of a user.
	User
	// UserInEnvironment is the access token of a user, and the environment that the request works on.
	UserInEnvironment
)

// Request is the request that a program sends.
type Request struct {
	// Method is the HTTP method.
	Method string
	// Path is the path on the server, with its query.
	Path string
	// Credential says how the request authenticates.
	Credential Credential
	// Body is the JSON of the body; nil if there is none.
	Body json.RawMessage
	// Stream says that the response is a stream or a large file, which is printed as it arrives.
	Stream bool
}

// Sample is a program.
type Sample struct {
	// Lang is the name of the language for syntax highlighting, and Label the one that readers see.
	Lang   string `json:"lang"`
	Label  string `json:"label"`
	Source string `json:"source"`
}

// Of returns the programs that send a request. It panics if the body is not JSON.
func Of(r Request) []Sample {
	return []Sample{
		{"shell", "curl", curl(r)},
		{"go", "Go", golang(r)},
		{"typescript", "TypeScript", typeScript(r)},
		{"python", "Python", python(r)},
	}
}

// header is a header of a request. Its value is the text of prefix, and then that of an environment variable.
type header struct{ name, prefix, variable string }

func (r Request) headers() []header {
	var list []header
	switch r.Credential {
	case None:
	case Key:
		list = append(list, header{"API-Key", "", keyVariable})
	case User, UserInEnvironment:
		list = append(list, header{"Authorization", "Bearer ", tokenVariable})
		if r.Credential == UserInEnvironment {
			list = append(list, header{"Environment-Id", "", environmentVariable})
		}
	}
	if r.Body != nil {
		list = append(list, header{"Content-Type", "application/json", ""})
	}
	return list
}

func curl(r Request) string {
	var b strings.Builder
	b.WriteString("curl --fail-with-body")
	if r.Stream {
		b.WriteString(" --no-buffer")
	}
	if r.Method != http.MethodGet && (r.Method != http.MethodPost || r.Body == nil) {
		b.WriteString(" --request " + r.Method)
	}
	fmt.Fprintf(&b, ` "$%s%s"`, serverVariable, r.Path)
	for _, h := range r.headers() {
		fmt.Fprintf(&b, " \\\n  --header \"%s: %s%s\"", h.name, h.prefix, shellVariable(h.variable))
	}
	if r.Body != nil {
		b.WriteString(" \\\n  --data '" + strings.ReplaceAll(indented(r.Body, "  "), "'", `'\''`) + "'")
	}
	return b.String() + "\n"
}

func shellVariable(name string) string {
	if name == "" {
		return ""
	}
	return "$" + name
}

func golang(r Request) string {
	var b strings.Builder
	imports := []string{"io", "log", "net/http", "os"}
	body := "nil"
	if r.Body != nil {
		imports = append(imports, "strings")
		body = "strings.NewReader(" + goText(indented(r.Body, "\t")) + ")"
	}
	b.WriteString("package main\n\nimport (\n")
	for _, name := range imports {
		fmt.Fprintf(&b, "\t%q\n", name)
	}
	b.WriteString(")\n\nfunc main() {\n")
	fmt.Fprintf(&b, "\treq, err := http.NewRequest(%q, os.Getenv(%q)+%q, %s)\n", r.Method, serverVariable, r.Path, body)
	b.WriteString("\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n")
	for _, h := range r.headers() {
		fmt.Fprintf(&b, "\treq.Header.Set(%q, %s)\n", h.name, h.expression("+", func(s string) string {
			return fmt.Sprintf("os.Getenv(%q)", s)
		}))
	}
	b.WriteString("\tresp, err := http.DefaultClient.Do(req)\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n" +
		"\tdefer resp.Body.Close()\n" +
		"\tif _, err := io.Copy(os.Stdout, resp.Body); err != nil {\n\t\tlog.Fatal(err)\n\t}\n" +
		"\tif resp.StatusCode >= 400 {\n\t\tlog.Fatal(resp.Status)\n\t}\n}\n")
	return b.String()
}

// expression returns the value of a header in a language that joins texts with an operator.
func (h header) expression(join string, variable func(name string) string) string {
	switch {
	case h.variable == "":
		return quoted(h.prefix)
	case h.prefix == "":
		return variable(h.variable)
	default:
		return quoted(h.prefix) + join + variable(h.variable)
	}
}

// goText returns a literal of a text. Raw strings cannot contain a backquote.
func goText(text string) string {
	if strings.Contains(text, "`") {
		return quoted(text)
	}
	return "`" + text + "`"
}

func typeScript(r Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "const response = await fetch(`${process.env.%s}%s`", serverVariable, r.Path)
	var options strings.Builder
	if r.Method != http.MethodGet {
		fmt.Fprintf(&options, "  method: %q,\n", r.Method)
	}
	if list := r.headers(); len(list) > 0 {
		options.WriteString("  headers: {\n")
		for _, h := range list {
			value := quoted(h.prefix)
			switch {
			case h.variable != "" && h.prefix == "":
				value = "process.env." + h.variable + ` ?? ""`
			case h.variable != "":
				value = "`" + h.prefix + "${process.env." + h.variable + "}`"
			}
			fmt.Fprintf(&options, "    %q: %s,\n", h.name, value)
		}
		options.WriteString("  },\n")
	}
	if r.Body != nil {
		options.WriteString("  body: JSON.stringify(" + strings.ReplaceAll(indented(r.Body, "  "), "\n", "\n  ") + "),\n")
	}
	if options.Len() > 0 {
		b.WriteString(", {\n" + options.String() + "}")
	}
	b.WriteString(");\n")
	if r.Stream {
		b.WriteString("if (!response.ok || !response.body) {\n" +
			"  throw new Error(`${response.status}: ${await response.text()}`);\n}\n" +
			"for await (const chunk of response.body) {\n  process.stdout.write(chunk);\n}\n")
		return b.String()
	}
	b.WriteString("const text = await response.text();\n" +
		"if (!response.ok) {\n  throw new Error(`${response.status}: ${text}`);\n}\nconsole.log(text);\n")
	return b.String()
}

func python(r Request) string {
	var b strings.Builder
	if r.Body != nil {
		b.WriteString("import json\n")
	}
	b.WriteString("import os\nimport sys\nimport urllib.error\nimport urllib.request\n\n")
	fmt.Fprintf(&b, "request = urllib.request.Request(\n    os.environ[%q] + %q,\n    method=%q,\n",
		serverVariable, r.Path, r.Method)
	if list := r.headers(); len(list) > 0 {
		b.WriteString("    headers={\n")
		for _, h := range list {
			fmt.Fprintf(&b, "        %q: %s,\n", h.name, h.expression(" + ", func(s string) string {
				return fmt.Sprintf("os.environ[%q]", s)
			}))
		}
		b.WriteString("    },\n")
	}
	if r.Body != nil {
		b.WriteString("    data=json.dumps(" + strings.ReplaceAll(pythonLiteral(r.Body), "\n", "\n    ") + ").encode(),\n")
	}
	b.WriteString(")\ntry:\n    with urllib.request.urlopen(request) as response:\n")
	if r.Stream {
		b.WriteString("        for line in response:\n            sys.stdout.buffer.write(line)\n" +
			"            sys.stdout.flush()\n")
	} else {
		b.WriteString("        print(response.read().decode())\n")
	}
	b.WriteString("except urllib.error.HTTPError as error:\n    sys.exit(f\"{error.code}: {error.read().decode()}\")\n")
	return b.String()
}
