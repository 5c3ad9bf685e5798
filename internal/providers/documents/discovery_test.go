package documents_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/risk"
)

// discovery returns a Google Discovery document.
func discovery(resources, schemas string) string {
	return fmt.Sprintf(`{"kind":"discovery#restDescription","discoveryVersion":"v1","name":"zoo","title":"Zoo API",
		"version":"v2","rootUrl":"https://zoo.example.com/","servicePath":"zoo/v2/","baseUrl":"https://old.example.com/",
		"batchPath":"batch","parameters":{
			"alt":{"type":"string","location":"query"},"key":{"type":"string","location":"query"},
			"access_token":{"type":"string","location":"query"},"$.xgafv":{"type":"string","location":"query"},
			"fields":{"type":"string","location":"query","description":"Which fields are returned."}},
		"resources":%s,"schemas":%s}`, resources, schemas)
}

// Methods of nested resources become actions: values in path, query and body are one flat object, of which each says
// where it goes.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	text := discovery(`{"parks":{"resources":{"animals":{"methods":{
		"create":{"id":"zoo.parks.animals.create","httpMethod":"POST","path":"v2/{+parent}/animals","description":"Adds one.",
			"parameters":{
				"parent":{"type":"string","location":"path","required":true,"pattern":"^parks/[^/]+$"},
				"count":{"type":"integer","format":"int32","location":"query","minimum":"1","maximum":"9","default":"3"},
				"dry":{"type":"boolean","location":"query","default":"false"},
				"weights":{"type":"number","location":"query","repeated":true,"default":"none"},
				"kinds":{"type":"string","location":"query","repeated":true,"description":"Which kinds.","enum":["CAT","DOG"],
					"enumDescriptions":["It purrs.",""]},
				"since":{"type":"string","format":"google-datetime","location":"query"},
				"extra":{"type":"object","location":"query"},"key":{"type":"string","location":"query"},
				"x":{"type":"string","location":"header"}},
			"request":{"$ref":"Animal","parameterName":"resource"},"response":{"$ref":"Animal"},
			"scopes":["https://zoo.example.com/readonly","https://zoo.example.com/all","https://zoo.example.com/all"],
			"supportsMediaUpload":true,"supportsMediaDownload":true,"deprecated":true}}}}}}`,
		`{"Animal":{"id":"Animal","type":"object","properties":{
			"name":{"type":"string","annotations":{"required":["zoo.parks.animals.create"]}},
			"parent":{"type":"string","annotations":{"required":["zoo.parks.animals.other"]}},
			"id":{"type":"string","format":"int64","readOnly":true},
			"keeper":{"$ref":"Keeper","description":"Who feeds it.","readOnly":true},
			"vet":{"$ref":"Keeper","description":"Who heals it."},
			"young":{"type":"array","items":{"$ref":"Animal"}},
			"tags":{"type":"object","additionalProperties":{"type":"any"}},
			"age":{"type":"integer","minimum":"0","default":"1"}}},
		"Keeper":{"id":"Keeper","type":"object","properties":{"zoo":{"$ref":"Missing"},
			"pet":{"$ref":"Animal","description":"Its own."}}}}`)
	r := read(t, text)["POST /v2/{parent}/animals"]
	got := r.Action
	require.Equal(t, "parks_animals_create", got.Name)
	require.Equal(t, "Adds one.", got.Description)
	require.Equal(t, []string{"parks.animals"}, got.Tags)
	require.True(t, got.Deprecated)
	require.Equal(t, [][]string{{"https://zoo.example.com/readonly"}, {"https://zoo.example.com/all"}}, got.Scopes)
	require.Equal(t, []string{"https://zoo.example.com/all"}, got.Call.Scopes, "a scope that only reads lowers no risk")
	require.Equal(t, actions.Body{ContentType: "application/json", Required: true}, got.Body)
	require.Equal(t, []actions.Parameter{
		{Property: "path_parent", Name: "parent", Place: actions.InPath, Reserved: true},
		{Property: "count", Name: "count", Place: actions.InQuery},
		{Property: "dry", Name: "dry", Place: actions.InQuery},
		{Property: "weights", Name: "weights", Place: actions.InQuery, Explode: true},
		{Property: "kinds", Name: "kinds", Place: actions.InQuery, Explode: true},
		{Property: "since", Name: "since", Place: actions.InQuery},
		{Property: "fields", Name: "fields", Place: actions.InQuery},
		{Property: "name", Name: "name", Place: actions.InBody},
		{Property: "parent", Name: "parent", Place: actions.InBody},
		{Property: "vet", Name: "vet", Place: actions.InBody},
		{Property: "young", Name: "young", Place: actions.InBody},
		{Property: "tags", Name: "tags", Place: actions.InBody},
		{Property: "age", Name: "age", Place: actions.InBody},
	}, got.Parameters)
	require.True(t, valid(t, got.Input, `{"path_parent":"parks/a","name":"n","count":9,"weights":[1.5],"kinds":["CAT"],
		"young":[{"name":"m"}],"tags":{"a":1},"vet":{"pet":{}}}`))
	for _, wrong := range []string{`{"name":"n"}`, `{"path_parent":"parks/a"}`, `{"path_parent":"a","name":"n"}`,
		`{"path_parent":"parks/a","name":"n","count":10}`, `{"path_parent":"parks/a","name":"n","kinds":["OWL"]}`,
		`{"path_parent":"parks/a","name":"n","id":"1"}`, `{"path_parent":"parks/a","name":"n","access_token":"t"}`,
		`{"path_parent":"parks/a","name":"n","age":-1}`, `{"path_parent":"parks/a","name":"n","young":[{"name":1}]}`} {
		require.False(t, valid(t, got.Input, wrong), wrong)
	}
	for _, part := range []string{`"default":3`, `"default":false`, `"format":"date-time"`,
		`{"type":"array","description":"Which kinds.\n- CAT: It purrs.","items":{"type":"string","enum":["CAT","DOG"]}}`,
		`"vet":{"allOf":[{"$ref":"#/$defs/Keeper"}],"description":"Who heals it."}`,
		`"pet":{"allOf":[{"$ref":"#/$defs/Animal"}],"description":"Its own."}`} {
		require.Contains(t, string(got.Input), part)
	}
	require.NotContains(t, string(got.Input), "none")
	require.True(t, valid(t, got.Output, `{"id":"1","keeper":{"pet":{"id":"2"}}}`))
	require.Equal(t, []string{"it can upload a file, which the action does not",
		"it can download a file, which the action does not", "the reference Missing leads to nothing in the document"},
		r.Notes[:3])
}

// The base URL is where Google's own programs send requests, and none that is no URL.
func TestDiscoveryBaseURL(t *testing.T) {
	t.Parallel()
	document := discovery(`{}`, `{}`)
	d, err := documents.Open([]byte(document))
	require.NoError(t, err)
	require.Equal(t, []string{"Zoo API", "v2", "google-discovery"}, []string{d.Title, d.Version, string(d.Format)})
	_, err = documents.Open([]byte(strings.Replace(document, `"v1"`, `"v3"`, 1)))
	require.EqualError(t, err, "line 1, column 9: the version of Google Discovery must be v1")
}

// Names are those of the ids without the API's own. One that is too long keeps its end, which says what the method
// does, and none depends on other methods but those of the same name.
func TestDiscoveryNames(t *testing.T) {
	t.Parallel()
	long := "zoo.organizations.locations.collections.gardens.enclosures.animals.batch"
	d, err := documents.Open([]byte(discovery(`{"a":{"methods":{
		"get":{"id":"zoo.a.get","httpMethod":"GET","path":"a"},
		"x":{"id":"`+long+`Delete","httpMethod":"POST","path":"x"},
		"y":{"id":"`+long+`Create","httpMethod":"POST","path":"x"},
		"w":{"id":"zoo.a.`+strings.Repeat("w", 60)+`","httpMethod":"GET","path":"w"},
		"one":{"id":"zoo.a.same_as","httpMethod":"GET","path":"s"},
		"two":{"id":"zoo.a.sameAs","httpMethod":"GET","path":"s"},
		"alone":{"httpMethod":"GET","path":"n"},
		"first":{"id":"zoo.twice","httpMethod":"GET","path":"t"},
		"second":{"id":"zoo.twice","httpMethod":"GET","path":"t"}}}}`, `{}`)))
	require.NoError(t, err)
	list, err := d.Operations()
	require.NoError(t, err)
	var names []string
	for r := range list {
		if r.Action == nil {
			require.Contains(t, r.Left.Message, "the same name, method and path")
			names = append(names, "")
			continue
		}
		require.True(t, risk.Assess(&r.Action.Call).Level.Valid())
		names = append(names, r.Action.Name)
	}
	require.Len(t, names, 9)
	require.Equal(t, "a_get", names[0])
	require.Regexp(t, `^gardens_enclosures_animals_batch_delete_[0-9a-f]{6}$`, names[1])
	require.Regexp(t, `^gardens_enclosures_animals_batch_create_[0-9a-f]{6}$`, names[2])
	require.Regexp(t, `^w{41}_[0-9a-f]{6}$`, names[3])
	require.Regexp(t, `^a_same_as_[0-9a-f]{6}$`, names[4])
	require.Regexp(t, `^a_same_as_[0-9a-f]{6}$`, names[5])
	require.NotEqual(t, names[4], names[5])
	require.Equal(t, "a_alone", names[6])
	require.Regexp(t, `^twice_[0-9a-f]{6}$`, names[7])
	require.Empty(t, names[8], "its id is that of the one before")
}

// Methods that cannot be requested are left out with the place, and forms of a path that are not known are none.
func TestDiscoveryLeftOut(t *testing.T) {
	t.Parallel()
	r := read(t, discovery(`{"a":{"methods":{
		"upload":{"id":"zoo.a.upload","httpMethod":"POST","path":"u","mediaUpload":{},"supportsMediaUpload":true},
		"none":{"id":"zoo.a.none","path":"none"},"odd":{"id":"zoo.a.odd","httpMethod":"JUMP","path":"odd"},
		"list":{"id":"zoo.a.list","httpMethod":"GET","path":"l{/a,b*}"},
		"query":{"id":"zoo.a.query","httpMethod":"GET","path":"q{?a}"},
		"up":{"id":"zoo.a.up","httpMethod":"GET","path":"../{+a}"},
		"up2":{"id":"zoo.a.up2","httpMethod":"GET","path":"a/%2e%2E/b"},
		"host":{"id":"zoo.a.host","httpMethod":"GET","path":"//other.example.com/"},
		"flat":{"id":"zoo.a.flat","httpMethod":"GET","flatPath":"f/{b}"},"text":"x"}}}`, `{}`))
	for name, want := range map[string]string{
		"POST /u":                  "nothing but upload a file",
		" /none":                   "no httpMethod",
		"JUMP /odd":                "no httpMethod",
		"GET /l{/a,b*}":            "a form that is not supported: {/a,b*}",
		"GET /q{?a}":               "a form that is not supported: {?a}",
		"GET /../{a}":              "leads upwards",
		"GET /a/%2e%2E/b":          "leads upwards",
		"GET //other.example.com/": "begins with two slashes",
	} {
		require.NotNil(t, r[name].Left, name)
		require.Contains(t, r[name].Left.Message, want)
		require.Positive(t, r[name].Left.Line)
	}
	require.Len(t, r, 9)
	require.Equal(t, []actions.Parameter{{Property: "fields", Name: "fields", Place: actions.InQuery},
		{Property: "b", Name: "b", Place: actions.InPath}}, r["GET /f/{b}"].Action.Parameters)
	var many strings.Builder
	for i := range documents.MaxOperations + 1 {
		fmt.Fprintf(&many, `"%d":{},`, i)
	}
	d, err := documents.Open([]byte(discovery(`{"a":{"methods":{`+strings.TrimSuffix(many.String(), ",")+`}}}`, `{}`)))
	require.NoError(t, err)
	_, err = d.Operations()
	require.ErrorContains(t, err, "more than 50000 operations")
}
