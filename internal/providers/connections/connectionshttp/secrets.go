package connectionshttp

import (
	"context"
	"net/http"
	"net/url"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
)

const (
	secretsPath = itemPath + "/webhook-secrets"
	secretPath  = secretsPath + "/{secret_id}"
)

// mountSecrets adds the operations on a connection's webhook secrets. op sets the fields
// that all operations on connections share.
func mountSecrets(api *httpapi.API, h *handlers, op func(httpapi.Operation) httpapi.Operation) {
	httpapi.Register(api, op(httpapi.Operation{
		ID: "list-webhook-secrets", Method: http.MethodGet, Path: secretsPath, Status: http.StatusOK,
		Permission: access.ConnectionsRead,
		Summary:    "List webhook secrets",
		Description: "Lists the secrets that verify the connection's webhooks, oldest first and at most 10. Their values " +
			"are never returned.",
	}), h.listSecrets)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "create-webhook-secret", Method: http.MethodPost, Path: secretsPath, Status: http.StatusCreated,
		Summary: "Add a webhook secret",
		Example: `{"secret": "the-secret-of-the-provider", "label": "from June on"}`,
		Description: "Adds a secret alongside the stored ones. From the next webhook on, a webhook is accepted if any of " +
			"the secrets verifies it. To rotate without a gap, add the new secret, set it at the provider, and delete the old " +
			"one when its `last_matched_at` no longer changes.",
	}), h.createSecret)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "delete-webhook-secret", Method: http.MethodDelete, Path: secretPath, Status: http.StatusNoContent,
		Summary: "Delete a webhook secret",
		Description: "Deletes a secret. After the last one is deleted, every webhook whose verification needs a secret is " +
			"rejected until there is a secret again.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}), h.deleteSecret)
}

// webhookSecret is the wire form of a webhook secret.
type webhookSecret struct {
	// The id of the secret. The verification of an event refers to it as `key_id`.
	ID string `json:"id" example:"whs_01939a4e7a5e7c6f8a543b1f0f6a8f11"`
	// Your name for the secret; may be empty.
	Label string `json:"label"`
	// The last four characters of the secret; `null` if it has fewer than 16.
	Hint *string `json:"hint"`
	// When the secret was stored.
	CreatedAt httpapi.Time `json:"created_at"`
	// When the secret last verified a webhook, accurate to the minute; `null` before the first.
	LastMatchedAt *httpapi.Time `json:"last_matched_at" nullable:"true"`
}

func viewSecret(v connections.WebhookSecret) webhookSecret {
	return webhookSecret{ID: v.ID, Label: v.Label, Hint: httpapi.NullIfEmpty(v.Hint), CreatedAt: httpapi.Time(v.CreatedAt),
		LastMatchedAt: (*httpapi.Time)(v.LastMatchedAt)}
}

type listSecretsOutput struct{ Body []webhookSecret }

func (h *handlers) listSecrets(ctx context.Context, in *Item) (*listSecretsOutput, error) {
	list, err := h.svc.Secrets(ctx, access.From(ctx).View(), in.Provider, in.ConnectionID)
	if err != nil {
		return nil, err
	}
	out := &listSecretsOutput{Body: make([]webhookSecret, len(list))}
	for i, v := range list {
		out.Body[i] = viewSecret(v)
	}
	return out, nil
}

type createSecretInput struct {
	Item
	Body newSecret
}

// newSecret is a secret to add.
type newSecret struct {
	// The secret as the provider's settings show it, at most 4096 bytes. It is never returned.
	Secret string `json:"secret" writeOnly:"true" minLength:"1" maxLength:"4096"`
	// A name for the secret, for example the day it came into use; no control characters.
	Label string `json:"label,omitempty" maxLength:"255"`
}

type createSecretOutput struct {
	// The path of the secret.
	Location string `header:"Location"`
	Body     webhookSecret
}

func (h *handlers) createSecret(ctx context.Context, in *createSecretInput) (*createSecretOutput, error) {
	v, err := h.svc.AddSecret(ctx, access.From(ctx), in.Provider, in.ConnectionID,
		connections.NewWebhookSecret{Value: secretbox.Secret(in.Body.Secret), Label: in.Body.Label})
	if err != nil {
		return nil, err
	}
	return &createSecretOutput{Body: viewSecret(v), Location: httpapi.Prefix + collectionPath + "/" +
		url.PathEscape(in.Provider) + "/" +
		url.PathEscape(in.ConnectionID) + "/webhook-secrets/" + v.ID}, nil
}

type deleteSecretInput struct {
	Item
	// The id of the secret.
	SecretID string `path:"secret_id" example:"whs_01939a4e7a5e7c6f8a543b1f0f6a8f11"`
}

func (h *handlers) deleteSecret(ctx context.Context, in *deleteSecretInput) (*struct{}, error) {
	return nil, h.svc.RemoveSecret(ctx, access.From(ctx), in.Provider, in.ConnectionID, in.SecretID)
}
