// Package imports owns imports of descriptions of APIs: the jobs that read them, the versions of a provider's actions
// that come of it, and which of them is active. See README.md.
package imports

import (
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/documents"
)

// collection is the name under which activations raise the version that caches watch. Its keys are environments.
const collection = "catalog"

// Limits of the imports of an environment.
const (
	// MaxUnfinished is how many imports wait or run.
	MaxUnfinished = 5
	// MaxImports is how many there are in all, and MaxStoredBytes what their actions take.
	MaxImports     = 200
	MaxStoredBytes = 512 << 20
	// MaxActive is how many providers have an active import, and MaxActions how many actions these have together: a search
	// has all of them in memory.
	MaxActive  = 100
	MaxActions = 250_000
	// MaxPatterns is how many patterns choose actions, and MaxHeaders how many headers all requests have.
	MaxPatterns = 100
	MaxHeaders  = 10
	// MaxDisplayName is in characters, and MaxURL in bytes.
	MaxDisplayName = 80
	MaxURL         = 2048
	// MaxInline is the size of the largest document within a JSON body, in bytes.
	MaxInline = 1 << 20
	// keptVersions is how many replaced versions of a provider are kept, and keptFailed for how long imports that led to
	// nothing are.
	keptVersions = 10
	keptFailed   = 30 * 24 * time.Hour
)

// Status is where an import is.
type Status string

// The statuses. The first three are of a job that has not ended, the last three of a version that was read whole.
const (
	receiving Status = "receiving"
	Queued    Status = "queued"
	Running   Status = "running"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	// Ready imports can be activated.
	Ready Status = "ready"
	// Active imports are what the catalog shows.
	Active Status = "active"
	// Replaced imports were active, and can be activated again.
	Replaced Status = "replaced"
)

// statuses returns every status that is shown.
func statuses() []Status {
	return []Status{Queued, Running, Ready, Active, Replaced, Failed, Cancelled}
}

// Schema returns the schema with the statuses, for the API.
func (Status) Schema(oas.Registry) *oas.Schema { return oas.Enum(statuses()) }

// Source is the kind of a document, as the client states it.
type Source string

// The sources.
const (
	OpenAPI3  Source = "openapi3"
	Swagger2  Source = "swagger2"
	Discovery Source = "google_discovery"
	GraphQL   Source = "graphql"
)

// Sources returns every source.
func Sources() []Source { return []Source{OpenAPI3, Swagger2, Discovery, GraphQL} }

// Schema returns the schema with the sources, for the API.
func (Source) Schema(oas.Registry) *oas.Schema { return oas.Enum(Sources()) }

// Order says what to import.
type Order struct {
	// Slug names the provider: a new one, or with Extends one of the installation, which gets further actions.
	Slug    string
	Extends bool
	// DisplayName is the provider's name for people; empty for the title of the document.
	DisplayName string
	// Source is empty for what the document itself says.
	Source Source
	// URL is where the document is; empty for one that comes with the order.
	URL string
	// BaseURL replaces the servers that the document names; empty for these.
	BaseURL string
	// Headers are those that all requests have although the document does not say so, each as documents.ReadHeader reads
	// it. Probe is the path of an action that tests connections; empty for none.
	Headers []string
	Probe   string
	// Include and Exclude choose actions, as actions.IsChosen does. Without Include all are included.
	Include, Exclude []string
	// Trusted documents can lower a risk.
	Trusted bool
}

// Document is what is known of a document that was read.
type Document struct {
	Format documents.Format `json:"format"`
	// Title and Version are the API's; empty where the document has none.
	Title   string `json:"title"`
	Version string `json:"version"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// Access is where credentials would go, and how.
type Access struct {
	// Hosts get requests with credentials, and TokenEndpoints are the URLs where tokens are issued and revoked.
	Hosts          []string `json:"hosts"`
	TokenEndpoints []string `json:"token_endpoints"`
	// AuthModes are the modes of authentication of the provider.
	AuthModes []string `json:"auth_modes"`
	// Headers are those that all requests have, and Probe is the path of the one that tests a connection.
	Headers []string `json:"headers,omitempty"`
	Probe   string   `json:"probe,omitempty"`
	// Digest is that of the definition's parts that decide about credentials.
	Digest string `json:"digest"`
}

// Left is an operation that became no action.
type Left struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// Note says what of its description an action or the provider does not have.
type Note struct {
	// Action is empty for a note about the provider.
	Action  string `json:"action"`
	Message string `json:"message"`
}

// Outcome is what an import has made of a document.
type Outcome struct {
	Operations int `json:"operations"`
	Actions    int `json:"actions"`
	// Excluded operations are those that the order does not include, and LeftOut those that could not become actions.
	Excluded int `json:"excluded"`
	LeftOut  int `json:"left_out"`
	// Left and Notes are the first of them.
	Left  []Left `json:"left"`
	Notes []Note `json:"notes"`
	// Noted is how many notes there are.
	Noted int `json:"noted"`
	// Access is empty for an import that extends a provider.
	Access Access `json:"access"`
	// Digest is that of all actions and of the definition.
	Digest string `json:"digest"`
}

// Failure says why an import failed. Line and Column are 0 if the place is not known.
type Failure struct {
	Code    FailureCode `json:"code"`
	Line    int         `json:"line,omitempty"`
	Column  int         `json:"column,omitempty"`
	Message string      `json:"message"`
}

// FailureCode is the kind of a failure.
type FailureCode string

// The kinds of failures.
const (
	FailedDocument FailureCode = "document_invalid"
	FailedFetch    FailureCode = "fetch_failed"
	FailedLimit    FailureCode = "limit_exceeded"
	FailedProvider FailureCode = "provider_invalid"
	FailedInternal FailureCode = "internal"
)

// Schema returns the schema with the codes, for the API.
func (FailureCode) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]FailureCode{FailedDocument, FailedFetch, FailedLimit, FailedProvider, FailedInternal})
}

// Phase is what an import does at present.
type Phase string

// The phases.
const (
	Fetching Phase = "fetching"
	Reading  Phase = "reading"
	Indexing Phase = "indexing"
)

// Schema returns the schema with the phases, for the API.
func (Phase) Schema(oas.Registry) *oas.Schema { return oas.Enum([]Phase{Fetching, Reading, Indexing}) }

// Progress says how far an import is.
type Progress struct {
	Phase Phase `json:"phase"`
	// Done and Total count operations; Total is 0 while it is not known.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Starts counts how often a process has begun to read the document.
	Starts int `json:"starts"`
}

// Creator is who has ordered an import.
type Creator struct {
	Kind     access.Kind
	ID, Name string
}

// Import is an import with what has come of it.
type Import struct {
	ID          string
	Environment id.Environment
	Order
	Status   Status
	Document Document
	Outcome  Outcome
	// Failure is set if Status is Failed.
	Failure *Failure
	// Progress is set while Status is Running.
	Progress  *Progress
	CreatedBy Creator
	// StoredBytes is what its parts take in the database, and Actions how many actions it has.
	StoredBytes, Actions int64
	CreatedAt, UpdatedAt time.Time
	// StartedAt, FinishedAt and ActivatedAt are nil before.
	StartedAt, FinishedAt, ActivatedAt *time.Time

	// definition is that of the provider, in YAML; empty if the import extends one.
	definition string
	due        time.Time
	version    int64
}

// ShownURL returns the URL of the document without its query, which may have a secret.
func (o *Order) ShownURL() string {
	shown, _, hidden := strings.Cut(o.URL, "?")
	if hidden {
		shown += "?…"
	}
	return shown
}

// name is the provider's name for people.
func (m *Import) name() string {
	switch {
	case m.DisplayName != "":
		return m.DisplayName
	case m.Extends || m.Document.Title == "":
		return m.Slug
	default:
		return m.Document.Title
	}
}

// HasActions reports whether the document was read to its end, so that the import can be activated, or is active.
func (m *Import) HasActions() bool {
	return m.Status == Ready || m.Status == Active || m.Status == Replaced
}
