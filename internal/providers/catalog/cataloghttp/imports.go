package cataloghttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/imports"
)

const (
	importsPath = catalogPath + "/imports"
	importPath  = importsPath + "/{id}"
)

// mountImports adds the operations on imports to the API.
func (h *handlers) mountImports(api *httpapi.API) {
	op := func(o httpapi.Operation) httpapi.Operation {
		o.Tag, o.Environment = tag, true
		if o.Permission == "" {
			o.Permission = access.CatalogWrite
		}
		if o.Status == 0 {
			o.Status = http.StatusOK
		}
		o.Missing = []string{"import"}
		return o
	}
	read := func(o httpapi.Operation) httpapi.Operation {
		o.Method, o.Permission = http.MethodGet, access.CatalogRead
		return op(o)
	}
	httpapi.Register(api, op(httpapi.Operation{
		ID: "create-catalog-import", Method: http.MethodPost, Path: importsPath, Status: http.StatusAccepted,
		Summary: "Import a description of an API",
		Example: `{"provider": "acme", "url": "https://api.acme.example/openapi.json"}`,
		Description: "Reads a description of an API in the background: OpenAPI 3.0 and 3.1, Swagger 2.0 and Google " +
			"Discovery documents in JSON or YAML, and GraphQL schemas as SDL or introspection results. Each operation " +
			"becomes an action, and servers and security become a provider that connections can name; or, with `extends`, " +
			"a provider of the installation gets further actions. Nothing of it is in the catalog before the import is " +
			"activated.\n\n" +
			"Documents have at most " + strconv.Itoa(documents.MaxBytes>>20) + " MiB and " +
			strconv.Itoa(documents.MaxOperations) + " operations. The field `document` takes up to " +
			strconv.Itoa(imports.MaxInline>>20) + " MiB; send larger ones as they are, with `Content-Type: " +
			"application/octet-stream` and the other fields as query parameters. An environment can have " +
			strconv.Itoa(imports.MaxUnfinished) + " unfinished imports.",
		Errors: []apperr.Code{apperr.CodeSlugTaken, apperr.CodeImportsLimit, apperr.CodeProviderNotFound,
			apperr.CodePayloadTooLarge},
		Messages: map[apperr.Code][]string{
			apperr.CodeSlugTaken: takenMessages(), apperr.CodeImportsLimit: limitMessages(),
			apperr.CodeProviderNotFound: {"The installation has no provider with this slug to extend"},
			apperr.CodePayloadTooLarge:  {"The document is larger than 64 MiB", "The body is larger than this route accepts"},
			apperr.CodeForbidden: {"The user does not have the permission catalog:write",
				"The user does not have the permission catalog:risk, which trusted documents need"},
		},
		MaxBodyBytes: imports.MaxInline + (1 << 20), Upload: true,
	}), h.create)
	httpapi.RegisterList(api, read(httpapi.Operation{
		ID: "list-catalog-imports", Path: importsPath, Summary: "List imports",
		Description: "Lists the environment's imports, newest first, without their outcomes.",
	}), httpapi.List[importsInput, imports.Import, ImportSummary]{Rows: h.listImports,
		View: func(_ context.Context, m *imports.Import) ImportSummary { return viewImportSummary(m) },
		Key:  func(m *imports.Import) string { return m.ID }, IsKey: id.Matcher(id.PrefixImport)})
	httpapi.Register(api, read(httpapi.Operation{
		ID: "get-catalog-import", Path: importPath, Summary: "Get an import",
		Description: "Returns an import: its progress while it runs, and then its outcome with a preview of what its " +
			"activation would change.",
		IfNoneMatch: true,
	}), h.getImport)
	httpapi.RegisterList(api, read(httpapi.Operation{
		ID: "list-catalog-import-changes", Path: importPath + "/changes", Summary: "List what an import changes",
		Description: "Lists the actions that the activation of an import would add, change or remove, in the order of " +
			"their names. A changed action has `differences`, which say what its callers will notice.\n\n" +
			"A change is `breaking` if a call that was accepted may be refused or may do something else, or if its result " +
			"may be without something that it had: the action is gone; its method, its path, a required body, a property, " +
			"a type or a value of its input is; a property of the input is required now, or more limited; a property or a " +
			"type of the result is gone, is another one, or is no longer certain; it needs another scope; its list " +
			"continues in another way; or it takes no idempotency key any more. A higher risk alone is not breaking: see " +
			"`risk_raised`.",
		Errors:   []apperr.Code{apperr.CodeImportNotReady},
		Messages: map[apperr.Code][]string{apperr.CodeImportNotReady: notReadyMessages()},
	}), httpapi.List[changesInput, imports.ActionChange, actionChange]{Rows: h.listChanges,
		View: func(_ context.Context, c *imports.ActionChange) actionChange { return viewChange(c) },
		Key:  func(c *imports.ActionChange) string { return c.Action }, IsKey: isPlace.MatchString})
	httpapi.Register(api, op(httpapi.Operation{
		ID: "activate-catalog-import", Method: http.MethodPost, Path: importPath + "/activate", Summary: "Activate an import",
		Description: "Makes an import the version of its provider that the catalog shows, all of it at the same time. The " +
			"version before stays available: activate it again to go back. `digest` names the preview that you have seen. " +
			"It is required if credentials would go to other hosts than now, or be used in another way; and with it the " +
			"activation is refused if another version has become active since.",
		Example: `{"digest": "2f0c7f0b4b0f4c7d9d6e0a1b2c3d4e5f"}`,
		Errors: []apperr.Code{apperr.CodeImportNotReady, apperr.CodeImportChanged, apperr.CodeSlugTaken,
			apperr.CodeProviderNotFound, apperr.CodeImportsLimit},
		Messages: map[apperr.Code][]string{
			apperr.CodeSlugTaken: takenMessages(), apperr.CodeImportsLimit: limitMessages(),
			apperr.CodeImportNotReady:   notReadyMessages(),
			apperr.CodeProviderNotFound: {"The installation has no provider with this slug to extend"},
			apperr.CodeImportChanged: {"Look at the preview, and activate the import with its digest",
				"The present preview has another digest; look at it again"},
			apperr.CodeForbidden: {"The user does not have the permission catalog:write",
				"The user does not have the permission catalog:risk, which trusted documents need"},
		},
	}), h.activate)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "cancel-catalog-import", Method: http.MethodPost, Path: importPath + "/cancel", Summary: "Cancel an import",
		Description: "Ends an import that has not ended. Cancelling a cancelled import changes nothing.",
		Errors:      []apperr.Code{apperr.CodeImportEnded},
	}), h.cancel)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "delete-catalog-import", Method: http.MethodDelete, Path: importPath, Status: http.StatusNoContent,
		Summary: "Delete an import",
		Description: "Deletes an import. With an active one its provider leaves the catalog, or the provider that it " +
			"extends loses its actions. A provider that connections or provider configurations belong to stays.",
		Errors: []apperr.Code{apperr.CodeImportNotEnded, apperr.CodeProviderInUse},
		Messages: map[apperr.Code][]string{apperr.CodeProviderInUse: {
			"1 connection belongs to the provider; delete it first",
			"3 connections belong to the provider; delete them first",
			"1 provider configuration belongs to the provider; delete it first",
			"3 provider configurations belong to the provider; delete them first",
		}},
	}), h.delete)
}

func takenMessages() []string {
	return []string{
		"The installation has a provider with this slug; choose another one, or import further actions for that provider " +
			"with extends",
		"The environment has a provider configuration of another provider with this key; choose another slug",
		"Another active import of this provider is of the other kind; delete it first",
	}
}

func limitMessages() []string {
	return []string{
		"The environment has 5 unfinished imports; wait for one to end, or cancel one",
		"The environment is sending 5 documents at this moment; retry when one of them has arrived",
		"The environment has 200 imports, which is as many as it may have; delete some",
		"The imports of the environment take 512 MiB, which is as much as they may; delete some",
		"The environment has 100 active imports, which is as many as it may have; delete some",
		"The active imports of the environment would have 260000 actions, and 250000 are as many as they may have; delete " +
			"some, or import fewer actions",
	}
}

func notReadyMessages() []string {
	return []string{"The import has not ended", "The import has ended without actions"}
}

// creation is the body that creates an import.
type creation struct {
	// The slug of the new provider: lower-case letters, digits and single hyphens, at most 63 bytes. It is required unless
	// `extends` is given. A later import with the same slug is another version of the provider.
	Provider patch.Optional[string] `json:"provider,omitempty" minLength:"1" maxLength:"63" example:"acme"`
	// The slug of a provider of the installation that gets the actions, in place of a new provider. They are called under
	// that provider's hosts and with its authentication.
	Extends patch.Optional[string] `json:"extends,omitempty" minLength:"1" maxLength:"63" example:"github"`
	// The kind of the document. Default: what the document says.
	Source patch.Optional[imports.Source] `json:"source,omitempty" example:"openapi3"`
	// The document: an object for JSON, a text for any format.
	Document httpapi.JSON `json:"document,omitempty"`
	// The URL of the document, in place of `document`. Up to three redirects are followed.
	URL patch.Optional[string] `json:"url,omitempty" minLength:"1" maxLength:"2048" format:"uri" example:"https://api.acme.example/openapi.json"`
	// A name of the provider for people, at most 80 characters. Default: the title of the document.
	DisplayName patch.Optional[string] `json:"display_name,omitempty" minLength:"1" maxLength:"80" example:"Acme"`
	// The base URL of the API, in place of the servers that the document names. A GraphQL schema names none: without this
	// field each connection has a URL.
	BaseURL patch.Optional[string] `json:"base_url,omitempty" minLength:"1" maxLength:"2048" format:"uri" example:"https://api.acme.example/v1"`
	// Headers that all requests have although the document does not say so, such as the version of the API, each as a
	// name, a colon and a value; at most 10. A caller can replace them. Credentials are no constants: connections have
	// them.
	Headers []string `json:"headers,omitempty" maxItems:"10" example:"[\"Acme-Version: 2026-11-01\"]"`
	// The path of an action that tests connections by GET. It must need no input. Default: connections are not tested.
	Probe patch.Optional[string] `json:"probe,omitempty" minLength:"1" maxLength:"300" example:"/me"`
	// The actions that are imported; at most 100. Each entry has one of three forms. Default: all:
	// - a pattern of names, in which `*` stands for any characters: `list_*`.
	// - `tag:` and a tag, in any case and with `*` likewise: `tag:billing`.
	// - a method, or `*` for any, and a path: `GET /v1/invoices/**`. Its segment `**` stands for any number of segments,
	//   also for none, and `*` for any characters of one; the names of parameters do not matter.
	Include []string `json:"include,omitempty" maxItems:"100" example:"[\"list_*\", \"tag:billing\"]"`
	// The actions that are left out, in the forms of `include`; at most 100.
	Exclude []string `json:"exclude,omitempty" maxItems:"100" example:"[\"delete_*\", \"* /v1/admin/**\"]"`
	// Whether what the document states about risks may lower them. It requires the permission `catalog:risk`. Default
	// `false`: statements only raise.
	Trusted bool `json:"trusted,omitempty" default:"false"`
}

// order returns the order, and the document if the body has one.
func (b *creation) order(upload io.Reader) (imports.Order, io.Reader, error) {
	o := imports.Order{Slug: b.Provider.Value, Source: b.Source.Value, URL: b.URL.Value, DisplayName: b.DisplayName.Value,
		BaseURL: b.BaseURL.Value, Headers: b.Headers, Probe: b.Probe.Value, Include: b.Include,
		Exclude: b.Exclude, Trusted: b.Trusted}
	var v apperr.Violations
	switch {
	case b.Provider.Set && b.Extends.Set:
		v.Add("extends", "exclusive", "must not be given together with provider")
	case b.Extends.Set:
		o.Slug, o.Extends = b.Extends.Value, true
	case !b.Provider.Set:
		v.Add("provider", "required", "is missing; give the slug of a new provider, or extends")
	}
	document := upload
	if text := b.Document.Bytes(); text != nil {
		inline, ok := documentOf(text)
		switch {
		case upload != nil:
			v.Add("document", "exclusive", "must not be given with a file")
		case !ok:
			v.Add("document", "type", "must be an object, or a text")
		}
		document = bytes.NewReader(inline)
	}
	return o, document, v.Err()
}

type createInput struct{ Body creation }

type createOutput struct {
	// The path of the import.
	Location string `header:"Location"`
	Body     ImportSummary
}

func (h *handlers) create(ctx context.Context, in *createInput) (*createOutput, error) {
	order, document, err := in.Body.order(httpapi.Upload(ctx))
	if err != nil {
		return nil, err
	}
	p := access.From(ctx)
	if order.Trusted && !p.Has(access.CatalogRisk) {
		return nil, apperr.New(apperr.CodeForbidden, "The user does not have the permission "+string(access.CatalogRisk)+
			", which trusted documents need")
	}
	m, err := h.imports.Create(ctx, p, order, document)
	if err != nil {
		return nil, err
	}
	return &createOutput{httpapi.Prefix + importsPath + "/" + m.ID, viewImportSummary(&m)}, nil
}

type importsInput struct {
	page.Query
	// Only imports of these providers.
	Provider []string `query:"provider,explode" maxItems:"50" maxLength:"63" example:"acme"`
	// Only imports with one of these statuses.
	Status []imports.Status `query:"status,explode" maxItems:"10" example:"ready"`
}

func (h *handlers) listImports(ctx context.Context, in *importsInput, p page.Request) ([]imports.Import, error) {
	return h.imports.List(ctx, access.From(ctx).Environment, imports.Filter{Providers: in.Provider,
		Statuses: in.Status}, p)
}

// ImportItem names an import in a path. It is exported because only exported embedded structs are documented.
type ImportItem struct {
	// The id of the import.
	ID string `path:"id" example:"imp_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type importOutput struct {
	httpapi.Versioned
	Body importDetail
}

func (h *handlers) getImport(ctx context.Context, in *ImportItem) (*importOutput, error) {
	env := access.From(ctx).Environment
	m, err := h.imports.Get(ctx, env, in.ID)
	if err != nil {
		return nil, err
	}
	body := viewImport(&m)
	if m.HasActions() {
		_, preview, err := h.imports.Preview(ctx, env, in.ID)
		if err != nil {
			return nil, err
		}
		body.Preview.Value = viewPreview(&m, &preview)
	}
	return &importOutput{httpapi.Version(etag.Of(body)), body}, nil
}

type changesInput struct {
	page.AscendingQuery
	ImportItem
	// Only changes of these kinds.
	Kind []imports.ChangeKind `query:"kind,explode" maxItems:"4" example:"risk_raised"`
	// Only breaking changes, or only others.
	Breaking []string `query:"breaking,explode" enum:"true,false" maxItems:"2" example:"true"`
}

func (h *handlers) listChanges(ctx context.Context, in *changesInput, p page.Request) ([]imports.ActionChange, error) {
	f := imports.ChangeFilter{Kinds: in.Kind, Breaking: oneOf(in.Breaking)}
	return h.imports.ListChanges(ctx, access.From(ctx).Environment, in.ID, f, p)
}

// activation is the body that activates an import.
type activation struct {
	// The digest of the preview that you have seen.
	Digest patch.Optional[string] `json:"digest,omitempty" minLength:"1" maxLength:"64" example:"2f0c7f0b4b0f4c7d9d6e0a1b2c3d4e5f"`
}

type activateInput struct {
	ImportItem
	Body activation
}

func (h *handlers) activate(ctx context.Context, in *activateInput) (*summaryOutput, error) {
	return summarize(h.imports.Activate(ctx, access.From(ctx), in.ID, strings.TrimSpace(in.Body.Digest.Value)))
}

type summaryOutput struct{ Body ImportSummary }

func summarize(m imports.Import, err error) (*summaryOutput, error) {
	if err != nil {
		return nil, err
	}
	return &summaryOutput{viewImportSummary(&m)}, nil
}

func (h *handlers) cancel(ctx context.Context, in *ImportItem) (*summaryOutput, error) {
	return summarize(h.imports.Cancel(ctx, access.From(ctx), in.ID))
}

func (h *handlers) delete(ctx context.Context, in *ImportItem) (*struct{}, error) {
	return nil, h.imports.Delete(ctx, access.From(ctx), in.ID)
}
