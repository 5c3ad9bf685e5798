package declared

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/outbound"
)

// input is an input of an action that was checked.
type input struct {
	parameter actions.Parameter
	schema    *Schema
	required  bool
	// members is true of an object each of whose members is a header or a parameter of the query by its own name.
	members bool
}

// inputName is what all kinds of tools take as the name of a property, without a dot, which separates fields.
var inputName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// checkShared checks inputs and schemas that actions share.
func (c *compiler) checkShared() {
	for name, s := range c.actions.Schemas.all() {
		c.schemas.check("actions.schemas."+name, &s, 0)
		within := map[string]bool{}
		if c.schemas.reaches(&s, within); within[name] {
			c.add("actions.schemas."+name, "contains itself")
		}
	}
	for name, in := range c.actions.Inputs.all() {
		c.checkInput("actions.inputs."+name, name, &in)
	}
	if c.actions.Style != "" && !slices.Contains(styles(), c.actions.Style) {
		c.add("actions.style", "must be one of %s", joined(styles()))
	}
	if c.actions.Body != "" && !slices.Contains(bodies(), c.actions.Body) {
		c.add("actions.body", "must be one of %s", joined(bodies()))
	}
}

func styles() []Style {
	return []Style{StyleEach, StyleComma, StyleSpace, StylePipe, StyleDeep, StyleJSON}
}

func bodies() []Body { return []Body{BodyJSON, BodyForm, BodyMultipart} }

func places() []Place {
	return []Place{Place(actions.InPath), Place(actions.InQuery), Place(actions.InHeader), Place(actions.InBody),
		Place(actions.AsBody)}
}

func joined[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, text := range list {
		texts[i] = string(text)
	}
	return strings.Join(texts, ", ")
}

// checkInput checks an input apart from the action that has it.
func (c *compiler) checkInput(field, name string, in *Input) {
	if !inputName.MatchString(name) {
		c.add(field, "must be at most 64 letters, digits, hyphens and underscores, and not begin with a digit or a hyphen")
	}
	if in.In != "" && !slices.Contains(places(), in.In) {
		c.add(field+".in", "must be one of %s", joined(places()))
	}
	if in.Style != "" && !slices.Contains(styles(), in.Style) {
		c.add(field+".style", "must be one of %s", joined(styles()))
	}
	if in.Name != "" && !isLine(in.Name, maxTitle) {
		c.add(field+".name", "must be one line of at most %d characters without spaces around it", maxTitle)
	}
	if in.Type == nil && in.Ref == "" && in.Enum == nil && in.Const == nil && in.AnyOf == nil &&
		in.In != Place(actions.AsBody) {
		c.add(field+".type", "is missing")
	}
	c.schemas.check(field, &in.Schema, 0)
}

// inputs reads the inputs of an action: those that it shares with others, then its own.
func (c *compiler) inputs(field string, a *Action) []input {
	var list []input
	names := pathNames(a.Path)
	has := map[string]bool{}
	for i, name := range a.Use {
		in, found := c.actions.Inputs.byName[name]
		switch {
		case !found:
			c.add(at(field+".use", i), "is not one of actions.inputs")
			continue
		case has[name]:
			c.add(at(field+".use", i), "is listed twice")
			continue
		}
		has[name], c.usedInputs[name] = true, true
		list = append(list, c.placed(at(field+".use", i), name, &in, a, names))
	}
	for name, in := range a.Input.all() {
		at := field + ".input." + name
		if has[name] {
			c.add(at, "has the name of an input in use")
			continue
		}
		has[name] = true
		c.checkInput(at, name, &in)
		list = append(list, c.placed(at, name, &in, a, names))
	}
	for i, name := range a.Required {
		n := slices.IndexFunc(list, func(in input) bool { return in.parameter.Property == name })
		switch {
		case n < 0:
			c.add(at(field+".required", i), "is not an input of the action")
		case list[n].required:
			c.add(at(field+".required", i), "is listed twice, or in the path, where all inputs are required")
		default:
			list[n].required = true
		}
	}
	if len(list) > maxInputs {
		c.add(field+".input", "has more than %d entries", maxInputs)
	}
	c.checkTogether(field, list, names)
	return list
}

// checkTogether checks what no input shows alone: those of the path are complete, and no two are at one place.
func (c *compiler) checkTogether(field string, list []input, names []string) {
	for i, name := range names {
		if slices.Index(names, name) != i {
			c.add(field+".path", "has a name twice")
		}
		if !slices.ContainsFunc(list, func(in input) bool {
			return in.parameter.Place == actions.InPath && in.parameter.Name == name
		}) {
			c.add(field+".path", "has the name %s, which is no input", name)
		}
	}
	taken := map[string]string{}
	for i := range list {
		p := &list[i].parameter
		key := string(p.Place) + " " + p.Name
		if p.Place == actions.InHeader {
			key = strings.ToLower(key)
		}
		if other, found := taken[key]; found {
			c.add(field+".input."+p.Property, "has the place and name of %s", other)
		}
		taken[key] = p.Property
	}
}

// placed says where an input goes.
func (c *compiler) placed(field, name string, in *Input, a *Action, names []string) input {
	out := input{schema: &in.Schema, parameter: actions.Parameter{Property: name, Name: name,
		Place: actions.Place(in.In), Reserved: in.Reserved}}
	p := &out.parameter
	if in.Name != "" {
		p.Name = in.Name
	}
	switch {
	case in.In != "":
	case slices.Contains(names, p.Name):
		p.Place = actions.InPath
	case hasBody(a.Method) && a.Method != http.MethodDelete:
		p.Place = actions.InBody
	default:
		p.Place = actions.InQuery
	}
	out.required = p.Place == actions.InPath
	form := p.Place == actions.InBody && c.bodyOf(a) != BodyJSON
	compound := c.schemas.isCompound(&in.Schema)
	style := in.Style
	if style == "" && compound && (p.Place == actions.InQuery || form) {
		style = c.actions.Style
	}
	switch {
	case style == "":
		p.Explode = p.Place == actions.InQuery || form
	case !compound:
		c.add(field+".style", "is for arrays and objects only")
	case p.Place != actions.InQuery && !form && (p.Place != actions.InHeader || style != StyleEach):
		c.add(field+".style", "has no meaning here: only queries and forms have styles, and objects of headers")
	default:
		out.members = style == StyleEach && c.schemas.isObject(&in.Schema) && p.Place != actions.InBody
		setStyle(p, style)
	}
	c.checkPlace(field, in, a, &out, names)
	return out
}

// setStyle writes a style as OpenAPI names it.
func setStyle(p *actions.Parameter, style Style) {
	switch style {
	case StyleEach:
		p.Style, p.Explode = "form", true
	case StyleComma:
		p.Style = "form"
	case StyleSpace:
		p.Style = "spaceDelimited"
	case StylePipe:
		p.Style = "pipeDelimited"
	case StyleDeep:
		p.Style, p.Explode = "deepObject", true
	case StyleJSON:
		p.JSON = true
	}
}

// checkPlace checks an input at its place.
func (c *compiler) checkPlace(field string, in *Input, a *Action, out *input, names []string) {
	p := &out.parameter
	if in.Reserved && p.Place != actions.InPath {
		c.add(field+".reserved", "is for inputs in the path only")
	}
	if isFile(&in.Schema) && p.Place != actions.AsBody && (p.Place != actions.InBody || c.bodyOf(a) != BodyMultipart) {
		c.add(field+".format", "binary is for members of a body that is multipart, or for the whole body")
	}
	switch p.Place {
	case actions.InPath:
		if !slices.Contains(names, p.Name) {
			c.add(field, "is in the path, which does not have {%s}", p.Name)
		}
		if c.schemas.isCompound(&in.Schema) {
			c.add(field, "is in the path, where arrays and objects have no form")
		}
	case actions.InHeader:
		c.checkHeader(field, in, out)
	case actions.InQuery:
		if c.engine != nil && !outbound.AcceptsQuery(c.engine, p.Name) {
			c.add(field, "is a parameter of the query that the definition sets itself")
		}
		if out.parameter.Style == "" && !p.JSON && c.schemas.isObject(&in.Schema) {
			c.add(field+".style", "must say how the object is written")
		}
	case actions.InBody, actions.AsBody:
		if !hasBody(a.Method) {
			c.add(field, "is in the body, which requests with %s do not have", a.Method)
		}
	}
}

// checkHeader checks an input that is a header.
func (c *compiler) checkHeader(field string, in *Input, out *input) {
	name := out.parameter.Name
	switch {
	case out.members:
	case c.schemas.isObject(&in.Schema):
		c.add(field+".style", "must be each: each member of the object is a header")
	case !httpguts.ValidHeaderFieldName(name):
		c.add(field, "is not the name of a header")
	case isOwnHeader(name) || c.engine != nil && !outbound.AcceptsHeader(c.engine, name):
		c.add(field, "is a header that carries credentials, frames the message, or is set by the gateway or the definition")
	case c.idempotency != nil && strings.EqualFold(name, c.idempotency.Header):
		c.add(field, "is the header of idempotency, which the gateway sets")
	}
}

// bodyOf returns the form of an action's body.
func (c *compiler) bodyOf(a *Action) Body {
	switch {
	case a.GraphQL != "":
		return BodyJSON
	case a.Body != "":
		return a.Body
	case c.actions.Body != "":
		return c.actions.Body
	default:
		return BodyJSON
	}
}

// body says how the body of an action is written.
func (c *compiler) body(field string, a *Action, list []input) actions.Body {
	if a.Body != "" && !slices.Contains(bodies(), a.Body) {
		c.add(field+".body", "must be one of %s", joined(bodies()))
	}
	members, whole, required := false, false, false
	file := false
	for i := range list {
		p := &list[i].parameter
		switch p.Place {
		case actions.InBody:
			members = true
		case actions.AsBody:
			whole, file = true, isFile(list[i].schema)
		default:
			continue
		}
		required = required || list[i].required
	}
	switch {
	case !members && !whole:
		if a.Body != "" {
			c.add(field+".body", "is given, but no input is in the body")
		}
		return actions.Body{}
	case members && whole:
		c.add(field+".input", "has an input that is the whole body, and others in the body")
	case whole && !file && c.bodyOf(a) != BodyJSON:
		c.add(field+".body", "must be json for an input that is the whole body")
	case file:
		return actions.Body{ContentType: "application/octet-stream", Required: required}
	}
	kinds := map[Body]string{BodyJSON: "application/json", BodyForm: "application/x-www-form-urlencoded",
		BodyMultipart: "multipart/form-data"}
	return actions.Body{ContentType: kinds[c.bodyOf(a)], Required: required}
}
