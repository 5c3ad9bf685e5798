package httpapi

import (
	"encoding"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// bindParameters sets the parameters of an input from a request whose query has been read. It takes what it can: a
// parameter that cannot be decoded stays at its zero value. Huma fills the inputs of operations; this is for inputs of
// requests that Huma refused, which it does not show.
func bindParameters(r *http.Request, input reflect.Value) {
	for i := range input.NumField() {
		f := input.Type().Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			bindParameters(r, input.Field(i))
			continue
		}
		if !f.IsExported() {
			continue
		}
		if f.Type.Kind() == reflect.Map {
			bindMembers(r, f.Tag, input.Field(i))
			continue
		}
		values := parameterValues(r, f.Tag)
		if byDefault := f.Tag.Get("default"); len(values) == 0 && byDefault != "" {
			values = strings.Split(byDefault, ",")
		}
		if len(values) > 0 && values[0] != "" {
			bindParameter(input.Field(i), values)
		}
	}
}

// parameterValues returns the values that a request has for the field with the tag.
func parameterValues(r *http.Request, tag reflect.StructTag) []string {
	name, _, _ := strings.Cut(tag.Get("query"), ",")
	switch {
	case name != "":
		return r.URL.Query()[name]
	case tag.Get("path") != "":
		return []string{r.PathValue(tag.Get("path"))}
	case tag.Get("header") != "":
		return []string{r.Header.Get(tag.Get("header"))}
	case tag.Get("cookie") != "":
		if c, err := r.Cookie(tag.Get("cookie")); err == nil {
			return []string{c.Value}
		}
	}
	return nil
}

// bindMembers sets an object of the query, whose members are texts.
func bindMembers(r *http.Request, tag reflect.StructTag, field reflect.Value) {
	object, _, _ := strings.Cut(tag.Get("query"), ",")
	for name, values := range r.URL.Query() {
		member, found := strings.CutPrefix(name, object+"[")
		if object == "" || !found {
			continue
		}
		if field.IsNil() {
			field.Set(reflect.MakeMap(field.Type()))
		}
		field.SetMapIndex(reflect.ValueOf(strings.TrimSuffix(member, "]")), reflect.ValueOf(values[0]))
	}
}

func bindParameter(field reflect.Value, values []string) {
	target, set := field, func() {}
	if w, ok := field.Addr().Interface().(huma.ParamWrapper); ok {
		target = w.Receiver()
	}
	if reactor, ok := field.Addr().Interface().(huma.ParamReactor); ok {
		set = func() { reactor.OnParamSet(true, nil) }
	}
	if target.Kind() == reflect.Slice {
		list := reflect.MakeSlice(target.Type(), 0, len(values))
		for _, v := range values {
			element := reflect.New(target.Type().Elem()).Elem()
			bindValue(element, v) // one that cannot be decoded keeps its place
			list = reflect.Append(list, element)
		}
		target.Set(list)
		set()
		return
	}
	if bindValue(target, values[0]) {
		set()
	}
}

// bindValue decodes one value, and reports whether it could.
func bindValue(target reflect.Value, text string) bool {
	if u, ok := target.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text)) == nil
	}
	switch target.Kind() {
	case reflect.String:
		target.SetString(text)
		return true
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, target.Type().Bits())
		if err == nil {
			target.SetInt(n)
		}
		return err == nil
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err == nil {
			target.SetBool(b)
		}
		return err == nil
	default:
		return false
	}
}
