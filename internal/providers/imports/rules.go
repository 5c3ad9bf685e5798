package imports

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/plaintext"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/registry"
)

// checkOrder returns the validation errors of an order, slug_taken or provider_not_found.
func (s *Service) checkOrder(ctx context.Context, env id.Environment, o *Order, document bool) error {
	var v apperr.Violations
	at := "provider"
	if o.Extends {
		at = "extends"
	}
	if !registry.ValidSlug(o.Slug) {
		v.Add(at, "pattern", "must be lower-case letters, digits and single hyphens between them, at most 63 bytes, and no "+
			"word that paths use, such as imports")
	}
	switch {
	case document && o.URL != "":
		v.Add("url", "exclusive", "must not be given together with a document")
	case !document && o.URL == "":
		v.Add("document", "required", "is missing; give a document or its url")
	case o.URL != "":
		s.checkURL(ctx, &v, "url", o.URL)
	}
	if o.BaseURL != "" {
		s.checkBaseURL(ctx, &v, o)
	}
	if o.DisplayName != "" {
		checkName(&v, o)
	}
	checkConstants(&v, o)
	checkPatterns(&v, "include", o.Include)
	checkPatterns(&v, "exclude", o.Exclude)
	if err := v.Err(); err != nil {
		return err
	}
	return s.checkSlug(ctx, env, o)
}

func checkName(v *apperr.Violations, o *Order) {
	switch {
	case o.Extends:
		v.Add("display_name", "exclusive", "must not be given with extends, whose provider has a name")
	case utf8.RuneCountInString(o.DisplayName) > MaxDisplayName:
		v.Add("display_name", "max_length", fmt.Sprintf("must be at most %d characters", MaxDisplayName))
	case strings.TrimSpace(o.DisplayName) == "" || !utf8.ValidString(o.DisplayName) ||
		strings.ContainsFunc(o.DisplayName, plaintext.IsControl):
		v.Add("display_name", "pattern", "must be text without control characters")
	}
}

func (s *Service) checkBaseURL(ctx context.Context, v *apperr.Violations, o *Order) {
	if o.Extends {
		v.Add("base_url", "exclusive", "must not be given with extends, whose provider has its own")
		return
	}
	s.checkURL(ctx, v, "base_url", o.BaseURL)
	if strings.ContainsAny(o.BaseURL, "?#") || strings.HasSuffix(o.BaseURL, "/") || strings.Contains(o.BaseURL, "${") {
		v.Add("base_url", "url", "must have no query, and no slash at its end")
	}
}

// checkConstants checks what the order adds to the document, and writes headers in one form.
func checkConstants(v *apperr.Violations, o *Order) {
	if o.Extends {
		if len(o.Headers) > 0 {
			v.Add("headers", "exclusive", "must not be given with extends, whose provider has its own")
		}
		if o.Probe != "" {
			v.Add("probe", "exclusive", "must not be given with extends, whose provider has its own")
		}
		return
	}
	if len(o.Headers) > MaxHeaders {
		v.Add("headers", "max_items", fmt.Sprintf("must be at most %d headers", MaxHeaders))
		return
	}
	names, out := map[string]bool{}, make([]string, 0, len(o.Headers))
	for i, text := range o.Headers {
		h, problem := documents.ReadHeader(text)
		if problem == "" && names[h.Name] {
			problem = "must not name a header twice"
		}
		if problem != "" {
			v.Add(fmt.Sprintf("headers[%d]", i), "header", problem)
			continue
		}
		names[h.Name] = true
		out = append(out, h.Name+": "+h.Value)
	}
	o.Headers = out
	if problem := documents.CheckProbe(o.Probe); o.Probe != "" && problem != "" {
		v.Add("probe", "pattern", problem)
	}
}

func (s *Service) checkURL(ctx context.Context, v *apperr.Violations, at, raw string) {
	if len(raw) > MaxURL {
		v.Add(at, "max_length", fmt.Sprintf("must be at most %d bytes", MaxURL))
		return
	}
	if refused := s.cfg.Targets.CheckTarget(ctx, raw); refused != nil {
		v.Add(at, refused.Code, refused.Message)
	}
}

func checkPatterns(v *apperr.Violations, at string, patterns []string) {
	if len(patterns) > MaxPatterns {
		v.Add(at, "max_items", fmt.Sprintf("must be at most %d patterns", MaxPatterns))
		return
	}
	for i, p := range patterns {
		if problem := actions.CheckChoice(p); problem != "" {
			v.Add(fmt.Sprintf("%s[%d]", at, i), "pattern", problem)
		}
	}
}

// checkSlug returns slug_taken for a provider that exists and is not of an import, or provider_not_found for one to be
// extended that does not exist.
func (s *Service) checkSlug(ctx context.Context, env id.Environment, o *Order) error {
	p, installed := s.cfg.Definitions.live.Get(o.Slug)
	own := s.cfg.Definitions.Versions(env)[o.Slug]
	switch {
	case o.Extends && installed && p.Outbound == nil:
		return apperr.Invalid(apperr.Detail{Location: "extends", Rule: "api",
			Message: "the definition of the provider has no API, so that no action could be called"})
	case o.Extends && !installed:
		return apperr.New(apperr.CodeProviderNotFound, "The installation has no provider with this slug to extend")
	case o.Extends:
		return nil
	case own != nil && own.Provider != nil:
		return nil // a definition of the same slug that came later does not take its versions away
	case installed:
		return apperr.New(apperr.CodeSlugTaken, "The installation has a provider with this slug; choose another one, or "+
			"import further actions for that provider with extends")
	}
	owner, ok, err := s.cfg.Keys().ProviderOf(ctx, env, o.Slug)
	if err != nil {
		return err
	}
	if ok && owner != o.Slug {
		return apperr.New(apperr.CodeSlugTaken, "The environment has a provider configuration of another provider with "+
			"this key; choose another slug")
	}
	return nil
}
