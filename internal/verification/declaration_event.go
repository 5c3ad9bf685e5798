package verification

// BodyRule says where the JSON is.
type BodyRule struct {
	// FormField is the field that holds the JSON when the content type is application/x-www-form-urlencoded. The signature
	// still covers the raw body.
	FormField string `yaml:"form_field"`
}

// EventRules derive an event's type and id.
type EventRules struct {
	// Type lists templates of {header:name}, {json:pointer} and literals. The first whose tokens all have a value decides.
	Type []string `yaml:"type"`
	// ID lists sources, header:<name> or json:<pointer>. The first that has a value decides.
	ID []string `yaml:"id"`
	// Map renames derived types.
	Map map[string]string `yaml:"map"`
}

// Predicate holds when the source's value is one of Equals.
type Predicate struct {
	// From is header:<name> or json:<pointer>.
	From   string   `yaml:"from"`
	Equals []string `yaml:"equals"`
}
