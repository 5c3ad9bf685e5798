package apikeyshttp

import (
	"context"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/page"
)

type listGrantsInput struct {
	// The id of the key.
	ID string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	page.Query
}

func (h *handlers) listGrants(ctx context.Context, in *listGrantsInput, p page.Request) ([]apikeys.Grant, error) {
	return h.svc.ListGrants(ctx, access.From(ctx), in.ID, p)
}

type createGrantInput struct {
	// The id of the key.
	ID   string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body grantBody
}

// grantBody is a grant that comes alone.
type grantBody newGrant

// Check adds the errors of what the schema accepts.
func (g *grantBody) Check(ctx context.Context, v *apperr.Violations) {
	v.AddAll(apikeys.GrantViolations(newGrant(*g).input(), httpapi.RequestTime(ctx)))
}

type createGrantOutput struct {
	// The path of the grant.
	Location string `header:"Location"`
	Body     grant
}

func (h *handlers) createGrant(ctx context.Context, in *createGrantInput) (*createGrantOutput, error) {
	g, err := h.svc.AddGrant(ctx, access.From(ctx), in.ID, newGrant(in.Body).input())
	if err != nil {
		return nil, err
	}
	return &createGrantOutput{Location: httpapi.Prefix + collectionPath + "/" + in.ID + "/grants/" + g.ID,
		Body: viewGrant(g)}, nil
}

type grantInput struct {
	// The id of the key.
	ID string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The id of the grant.
	GrantID string `path:"grant_id" example:"grt_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

func (h *handlers) deleteGrant(ctx context.Context, in *grantInput) (*struct{}, error) {
	return nil, h.svc.RemoveGrant(ctx, access.From(ctx), in.ID, in.GrantID)
}
