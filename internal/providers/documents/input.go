package documents

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
)

// input is the flat object of an operation.
type input struct {
	schema     []byte
	parameters []actions.Parameter
	body       actions.Body
	notes      []string
	problem    *Problem
	// fields are what the parameters are made of.
	fields []field
	// idempotency is the header that takes a key; nil if there is none.
	idempotency *actions.Idempotency
}

// field is a property of the flat object before it has its name.
type field struct {
	parameter   actions.Parameter
	schema      jsonindex.Value
	description string
	required    bool
	// swagger is true of a parameter of Swagger 2.0 or Google Discovery, which is its own schema.
	swagger bool
	// file is true of one whose content is a file.
	file bool
}

// maxParameters is how many properties the flat object has at most.
const maxParameters = 1000

// input makes the flat object of parameters and body.
func (d *Document) input(o *operation) input {
	fields, body, problem := d.parameters(o)
	in := input{body: body, problem: problem}
	if problem != nil {
		return in
	}
	switch d.Format {
	case Swagger2:
	case Discovery:
		more, body := d.methodBody(o)
		fields, in.body, in.notes = append(fields, more...), body, methodNotes(o.own)
	default:
		more, body := d.requestBody(o.own)
		fields, in.body = append(fields, more...), body
	}
	fields, in.idempotency = takeKey(o.method, fields)
	if len(fields) > maxParameters {
		in.problem = problemAt(o.own, fmt.Sprintf("it has more than %d parameters", maxParameters))
		return in
	}
	nameFields(fields)
	for i := range fields {
		in.parameters = append(in.parameters, fields[i].parameter)
	}
	w := newWriter(d, true)
	in.schema = w.flat(fields)
	in.notes, in.fields = append(in.notes, w.notes...), fields
	return in
}

// takeKey takes the header out of the parameters of a call that writes with which its provider recognises a call that
// it has had.
func takeKey(method string, fields []field) ([]field, *actions.Idempotency) {
	if method == "GET" || method == "HEAD" || method == "QUERY" {
		return fields, nil
	}
	for i := range fields {
		p := fields[i].parameter
		if name := strings.TrimPrefix(bare(p.Name), "x"); p.Place == actions.InHeader && headerForm.MatchString(p.Name) &&
			slices.Contains([]string{"idempotencykey", "idempotencyid", "idempotencytoken", "idempotentkey", "idempotentid",
				"idempotencykeyheader", "paypalrequestid"}, name) {
			return slices.Delete(fields, i, i+1), &actions.Idempotency{Header: p.Name}
		}
	}
	return fields, nil
}

// parameters reads the parameters of an operation and its path: those of the operation come in place of the path's.
func (d *Document) parameters(o *operation) ([]field, actions.Body, *Problem) {
	var fields []field
	var body actions.Body
	at := map[string]int{}
	add := func(f field, ok bool) {
		if !ok {
			return
		}
		key := string(f.parameter.Place) + " " + f.parameter.Name
		if i, found := at[key]; found {
			fields[i] = f
			return
		}
		at[key] = len(fields)
		fields = append(fields, f)
	}
	for _, list := range []jsonindex.Value{o.item.Get("parameters"), o.own.Get("parameters")} {
		for p := range list.Items() {
			add(d.parameter(d.resolve(p)))
		}
	}
	if d.Format == Discovery {
		for _, list := range []jsonindex.Value{o.own.Get("parameters"), d.root.Get("parameters")} {
			for name, p := range list.Members() {
				if _, own := at["query "+name]; !own {
					add(methodParameter(o, name, p))
				}
			}
		}
	}
	carriers := d.credentials()
	fields = slices.DeleteFunc(fields, func(f field) bool {
		name := f.parameter.Name
		return f.parameter.Place == actions.InHeader && (isOwnHeader(name) || carriers.headers[strings.ToLower(name)]) ||
			f.parameter.Place == actions.InQuery && carriers.query[name]
	})
	for _, name := range pathNames(requested(o.path)) {
		if name == "" {
			return nil, body, problemAt(o.own, "a name in the path is empty")
		}
		if _, found := at["path "+name]; !found { // many documents forget some of them
			at["path "+name] = len(fields)
			fields = append(fields, field{parameter: actions.Parameter{Name: name, Place: actions.InPath}, required: true})
		}
	}
	names := pathNames(requested(o.path))
	fields = slices.DeleteFunc(fields, func(f field) bool {
		return f.parameter.Place == actions.InPath && !slices.Contains(names, f.parameter.Name)
	})
	if d.Format == Swagger2 {
		fields, body = d.swaggerBody(o, fields)
	}
	return fields, body, nil
}

// isOwnHeader reports whether a header is set by the gateway or by the connection's credentials.
func isOwnHeader(name string) bool {
	switch strings.ToLower(name) {
	case "accept", "content-type", "content-length", "authorization", "host", "cookie", "user-agent", "connection",
		"transfer-encoding", "proxy-authorization", "te", "upgrade", "expect", "accept-encoding":
		return true
	default:
		return false
	}
}

// parameter reads one parameter; false for one of no use.
func (d *Document) parameter(p jsonindex.Value) (field, bool) {
	name, ok := p.Get("name").Text()
	if !ok || name == "" {
		return field{}, false
	}
	f := field{parameter: actions.Parameter{Name: name}, schema: p.Get("schema"),
		description: prose(p.Get("description"), maxDescription), required: p.Get("required").Bool()}
	switch p.Get("in").String() {
	case "path":
		f.parameter.Place, f.required = actions.InPath, true
	case "query":
		f.parameter.Place = actions.InQuery
	case "header":
		f.parameter.Place = actions.InHeader
	case "body":
		f.parameter.Place = actions.AsBody
		return f, d.Format == Swagger2
	case "formData":
		f.parameter.Place = actions.InBody
	default:
		return field{}, false
	}
	if d.Format == Swagger2 {
		f.swagger, f.schema = true, p
		f.file = p.Get("type").String() == "file"
		f.parameter.Style, f.parameter.Explode = collection(p.Get("collectionFormat").String())
		return f, true
	}
	if f.parameter.Place == actions.InBody {
		return field{}, false
	}
	if _, media := chooseMedia(p.Get("content")); media.Exists() {
		f.schema, f.parameter.JSON = media.Get("schema"), true
		return f, true
	}
	style := p.Get("style").String()
	if slices.Contains([]string{"form", "simple", "label", "matrix", "spaceDelimited", "pipeDelimited", "deepObject"},
		style) {
		f.parameter.Style = style
	}
	f.parameter.Explode = p.Get("explode").Bool() || !p.Get("explode").Exists() && (style == "form" || style == "" &&
		f.parameter.Place == actions.InQuery)
	return f, true
}

// collection translates the format of arrays in Swagger 2.0.
func collection(format string) (style string, explode bool) {
	switch format {
	case "ssv":
		return "spaceDelimited", false
	case "pipes":
		return "pipeDelimited", false
	case "multi":
		return "form", true
	default:
		return "", false
	}
}

// swaggerBody gives the parameters in the body their form.
func (d *Document) swaggerBody(o *operation, fields []field) ([]field, actions.Body) {
	consumes := o.own.Get("consumes")
	if !consumes.Exists() {
		consumes = d.root.Get("consumes")
	}
	var kinds []string
	for c := range consumes.Items() {
		kinds = append(kinds, mediaType(c.String()))
	}
	var body actions.Body
	form := slices.ContainsFunc(fields, func(f field) bool { return f.parameter.Place == actions.InBody })
	file := slices.ContainsFunc(fields, func(f field) bool { return f.file })
	var out []field
	for _, f := range fields {
		switch {
		case f.parameter.Place != actions.AsBody:
			out = append(out, f)
		case form:
			// A body next to form fields is not possible.
		default:
			body = actions.Body{ContentType: chosenKind(kinds), Required: f.required || needsMembers(d, f.schema)}
			out = append(out, d.bodyFields(f.schema, f.description, body.Required)...)
		}
	}
	if form {
		body.ContentType = "application/x-www-form-urlencoded"
		if file || slices.Contains(kinds, "multipart/form-data") && !slices.Contains(kinds, body.ContentType) {
			body.ContentType = "multipart/form-data"
		}
	}
	return out, body
}

func chosenKind(kinds []string) string {
	for _, k := range kinds {
		if isJSON(k) && !strings.Contains(k, "*") {
			return k
		}
	}
	if len(kinds) > 0 && !strings.Contains(kinds[0], "*") && strings.Contains(kinds[0], "/") {
		return kinds[0]
	}
	return "application/json"
}

// requestBody reads the body of an operation of OpenAPI 3.
func (d *Document) requestBody(own jsonindex.Value) ([]field, actions.Body) {
	body := d.resolve(own.Get("requestBody"))
	content := body.Get("content")
	kind, media := chooseMedia(content)
	if strings.Contains(kind, "*") {
		kind = "application/json"
	}
	if !media.Exists() {
		for _, want := range []string{"application/x-www-form-urlencoded", "multipart/form-data", ""} {
			for name, m := range content.Members() {
				if !media.Exists() && (want == "" || mediaType(name) == want) && strings.Contains(name, "/") {
					kind, media = mediaType(name), m
				}
			}
		}
	}
	if !media.Exists() {
		return nil, actions.Body{}
	}
	// Most documents do not state it, and few operations whose body has required members can do without it.
	required := body.Get("required").Bool() || !body.Get("required").Exists() && needsMembers(d, media.Get("schema"))
	description := prose(body.Get("description"), maxDescription)
	return d.bodyFields(media.Get("schema"), description, required), actions.Body{ContentType: kind, Required: required}
}

// needsMembers reports whether an object has required members.
func needsMembers(d *Document, schema jsonindex.Value) bool {
	m := members{d: d, required: map[string]bool{}}
	return schema.Exists() && m.add(schema, 0) && len(m.required) > 0
}

// bodyFields returns the members of a body that is an object, and else the body as a whole.
func (d *Document) bodyFields(schema jsonindex.Value, description string, required bool) []field {
	m := members{d: d, required: map[string]bool{}}
	if schema.Exists() && m.add(schema, 0) && len(m.fields) > 0 {
		for i := range m.fields {
			m.fields[i].required = required && m.required[m.fields[i].parameter.Name]
		}
		return m.fields
	}
	return []field{{parameter: actions.Parameter{Name: "body", Place: actions.AsBody}, schema: schema,
		description: description, required: required}}
}

// members collects the members of an object.
type members struct {
	d        *Document
	fields   []field
	required map[string]bool
}

// add adds the members that a schema describes. It reports false if the schema describes more than members.
func (m *members) add(schema jsonindex.Value, depth int) bool {
	schema = m.d.resolve(schema)
	if schema.Kind() != jsonindex.Object || depth > maxReferences {
		return false
	}
	for _, other := range []string{"oneOf", "anyOf", "not", "items", "if"} {
		if schema.Get(other).Exists() {
			return false
		}
	}
	if kind := schema.Get("type"); kind.Exists() && kind.String() != "object" {
		return false
	}
	for part := range schema.Get("allOf").Items() {
		if !m.add(part, depth+1) {
			return false
		}
	}
	for name, property := range schema.Get("properties").Members() {
		if m.d.is(property, "readOnly") {
			continue
		}
		f := field{parameter: actions.Parameter{Name: name, Place: actions.InBody}, schema: property}
		if i := slices.IndexFunc(m.fields, func(f field) bool { return f.parameter.Name == name }); i >= 0 {
			m.fields[i] = f
			continue
		}
		m.fields = append(m.fields, f)
	}
	for name := range schema.Get("required").Items() {
		m.required[name.String()] = true
	}
	return true
}

// propertyForm is what all kinds of tools take as the name of a property.
var propertyForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// nameFields gives each field the name of its property. Where two have the same, those of path, query and header say
// so.
func nameFields(fields []field) {
	count := map[string]int{}
	for i := range fields {
		p := &fields[i].parameter
		p.Property = p.Name
		if !propertyForm.MatchString(p.Name) {
			p.Property = plainName(p.Name)
		}
		count[p.Property]++
	}
	taken := map[string]bool{}
	for i := range fields {
		p := &fields[i].parameter
		if count[p.Property] > 1 && p.Place != actions.InBody && p.Place != actions.AsBody {
			p.Property = string(p.Place) + "_" + p.Property
		}
		if len(p.Property) > 64 || taken[p.Property] {
			p.Property = plainName(string(p.Place) + "\x00" + p.Name)
		}
		taken[p.Property] = true
	}
}

// plainName makes a name of its form from any text.
func plainName(name string) string {
	var out strings.Builder
	for _, r := range name {
		switch {
		case out.Len() > 40:
		case r < 0x7f && propertyForm.MatchString(string(r)):
			out.WriteRune(r)
		case out.Len() > 0 && !strings.HasSuffix(out.String(), "_"):
			out.WriteByte('_')
		}
	}
	text := strings.Trim(out.String(), "_")
	if text == "" || len(name) > 40 || strings.Contains(name, "\x00") {
		sum := sha256.Sum256([]byte(name))
		text = strings.TrimLeft(text+"_"+hex.EncodeToString(sum[:])[:6], "_")
	}
	return text
}

// flat writes the schema of the flat object.
func (w *writer) flat(fields []field) []byte {
	return w.fit(func() {
		w.out.WriteString(`{"type":"object","properties":{`)
		for i := range fields {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.string(fields[i].parameter.Property)
			w.out.WriteByte(':')
			w.field(&fields[i])
		}
		w.out.WriteByte('}')
		first := true
		for i := range fields {
			if !fields[i].required {
				continue
			}
			if w.out.WriteString(map[bool]string{true: `,"required":[`, false: `,`}[first]); true {
				first = false
			}
			w.string(fields[i].parameter.Property)
		}
		if !first {
			w.out.WriteByte(']')
		}
		w.out.WriteString(`,"additionalProperties":false}`)
	})
}

// field writes the schema of a property of the flat object.
func (w *writer) field(f *field) {
	switch {
	case f.file:
		w.binary(f.description)
	case f.swagger:
		w.schema(f.schema, 1, true)
	case !f.schema.Exists() && f.parameter.Place != actions.AsBody:
		w.out.WriteString(`{"type":"string"`)
		w.describe(f.description)
		w.out.WriteByte('}')
	case f.description != "" && f.schema.Get("$ref").Exists():
		// A reference has no place for a description of its own that all readers respect.
		w.out.WriteString(`{"allOf":[`)
		w.schema(f.schema, 1, false)
		w.out.WriteByte(']')
		w.describe(f.description)
		w.out.WriteByte('}')
	case f.description != "" && !f.schema.Get("description").Exists():
		before := w.out.Len()
		w.schema(f.schema, 1, false)
		if text := w.out.Bytes()[before:]; len(text) >= 2 && text[len(text)-1] == '}' {
			empty := len(text) == 2
			w.out.Truncate(w.out.Len() - 1)
			if empty {
				w.out.WriteString(`"description":`)
				w.string(f.description)
			} else {
				w.describe(f.description)
			}
			w.out.WriteByte('}')
		}
	default:
		w.schema(f.schema, 1, false)
	}
}

func (w *writer) describe(text string) {
	if text != "" {
		w.out.WriteString(`,"description":`)
		w.string(text)
	}
}

// string writes a JSON string.
func (w *writer) string(text string) {
	if isUnescaped(text) {
		w.out.WriteByte('"')
		w.out.WriteString(text)
		w.out.WriteByte('"')
		return
	}
	b, err := json.Marshal(text)
	if err != nil {
		b = []byte(`""`) // a string always has a form
	}
	w.out.Write(b)
}

// isUnescaped reports whether a JSON string is the text between quotation marks, without escapes.
func isUnescaped(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
