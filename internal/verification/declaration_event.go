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
	// OccurredAt is when the event happened, as its provider says; nil where it does not say.
	OccurredAt *OccurredAt `yaml:"occurred_at"`
	// Batch is set where one delivery carries several events; nil where none does. A body without the items is described by Type
	// and ID.
	Batch *Batch `yaml:"batch"`
	// Map renames derived types, those of a batch's items too.
	Map map[string]string `yaml:"map"`
	// Redact lists json:<pointer>, also with *, of values that must not be stored, besides tokens that prove the delivery.
	Redact []string `yaml:"redact"`
}

// OccurredAt is where a time stands that nothing is decided by.
type OccurredAt struct {
	// From is header:<name> or json:<pointer>.
	From string `yaml:"from"`
	// Format is unix_s, unix_ms or rfc3339.
	Format string `yaml:"format"`
}

// Batch describes the items of a body that carries several events.
type Batch struct {
	// Items is a JSON pointer that ends in *, such as "/*" for a body that is an array, or "/entry/*/changes/*".
	Items string `yaml:"items"`
	// Type lists templates of {item:pointer} (a value of the item), {item} (the item itself), {json:pointer} (a value of the body),
	// {header:name} and literals. The first whose tokens all have a value decides.
	Type []string `yaml:"type"`
	// ID lists sources: item:<pointer>, or item for the item itself. The first that has a value decides. The batch's id is a hash
	// of the ids of all items, and there is none where an item has none.
	ID []string `yaml:"id"`
}

// Predicate holds when the source's value is one of Equals.
type Predicate struct {
	// From is header:<name> or json:<pointer>.
	From   string   `yaml:"from"`
	Equals []string `yaml:"equals"`
}
