package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/suggest"
	"sallyport/internal/platform/terminal"
)

// filterNames are the names of a filter of events that may be mistyped. Events of each may be stored although it is
// gone, so that they are never an error.
type filterNames struct {
	providers, configs, connections, subscriptions, types []string
}

// names returns the names of a filter of events.
func (f *eventFilter) names() filterNames {
	return filterNames{providers: f.Provider, configs: f.ProviderConfigKey, connections: f.ConnectionID,
		subscriptions: f.SubscriptionID, types: f.EventType}
}

// warnNames warns of each name that the server does not know, and of types that nothing can match: an empty result
// would look as if nothing had happened. It says nothing where the server does not.
func (e *env) warnNames(ctx context.Context, api *apiclient.Client, f filterNames) {
	e.warnProviders(ctx, api, f.providers)
	for _, of := range []struct {
		names   []string
		missing func(ctx context.Context, api *apiclient.Client, name string) string
	}{{f.configs, missingConfig}, {f.connections, missingConnection}, {f.subscriptions, missingSubscription}} {
		for _, name := range of.names {
			if message := of.missing(ctx, api, name); message != "" {
				e.note("warning: %s", terminal.Inline(message))
			}
		}
	}
	e.warnTypes(ctx, api, f.types, f.providers)
}

// missingConfig returns the message that no connection has such a provider configuration; empty if one has, or if the
// server does not say. The slug of a provider is one that may have no connections yet.
func missingConfig(ctx context.Context, api *apiclient.Client, key string) string {
	if key == ownProvider || missingProvider(ctx, api, key) == "" {
		return ""
	}
	return missingName(ctx, api, "provider configuration", key, apiclient.Request{Path: connectionsPath},
		func(row json.RawMessage) (string, error) {
			r, err := into[connectionRow](row)
			return r.ProviderConfigKey, err
		})
}

// missingConnection returns the message that there is no connection with such an id; empty if there is one, or if the
// server does not say.
func missingConnection(ctx context.Context, api *apiclient.Client, connectionID string) string {
	idOf := func(row json.RawMessage) (string, error) {
		r, err := into[connectionRow](row)
		return r.ConnectionID, err
	}
	first := apiclient.Request{Path: connectionsPath, Query: url.Values{"q": {connectionID}, "order": {"asc"}}}
	if missingName(ctx, api, "connection", connectionID, first, idOf) == "" {
		return ""
	}
	return missingName(ctx, api, "connection", connectionID, apiclient.Request{Path: connectionsPath}, idOf)
}

// missingSubscription returns the message that there is no such subscription; empty if there is, or if the server does
// not say.
func missingSubscription(ctx context.Context, api *apiclient.Client, subscriptionID string) string {
	_, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: subscriptionsPath +
		apiclient.Path(subscriptionID)})
	var refused *apiclient.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		return ""
	}
	return fmt.Sprintf("there is no subscription %q", subscriptionID)
}

// maxLookedAt is how many names are compared with one that may be mistyped.
const maxLookedAt = 1000

// missingName returns the message that no row of a list has the name, with the one that is probably meant; empty if a
// row has it, or if the list cannot be read or is too long.
func missingName(ctx context.Context, api *apiclient.Client, what, name string, list apiclient.Request,
	nameOf func(row json.RawMessage) (string, error)) string {
	found := false
	var names []string
	more, err := api.Each(ctx, list, maxLookedAt, func(row json.RawMessage) error {
		one, err := nameOf(row)
		names = append(names, one)
		found = found || one == name
		return err
	})
	if err != nil || more || found {
		return ""
	}
	return fmt.Sprintf("there is no %s %q%s", what, name, suggest.Question(name, names, nil))
}

// splitConnections takes the provider configuration off ids that have one in front, as github/repo, which is how
// commands print connections, and returns the keys with those. Several connections with one of two keys each would also
// select what neither names, so that only one may have one.
func splitConnections(ids, keys []string) (onlyIDs, allKeys []string, err error) {
	onlyIDs, allKeys = slices.Clone(ids), slices.Clone(keys)
	for i, text := range ids {
		key, connectionID, found := strings.Cut(text, "/")
		if !found {
			continue
		}
		if len(ids) > 1 || len(keys) > 0 && !slices.Equal(keys, []string{key}) {
			return nil, nil, usageError("--connection-id " + text + " names a provider configuration, and other connections " +
				"or configurations are given, too: give the id alone, " + connectionID)
		}
		onlyIDs[i], allKeys = connectionID, []string{key}
	}
	return onlyIDs, allKeys, nil
}

// AfterApply takes provider configurations off the ids of connections.
func (f *eventFilter) AfterApply() (err error) {
	f.ConnectionID, f.ProviderConfigKey, err = splitConnections(f.ConnectionID, f.ProviderConfigKey)
	return err
}

// AfterApply takes provider configurations off the ids of connections.
func (c *listenCommand) AfterApply() (err error) {
	c.ConnectionID, c.ProviderConfigKey, err = splitConnections(c.ConnectionID, c.ProviderConfigKey)
	return err
}

// AfterApply takes provider configurations off the ids of connections.
func (c *rejectionsList) AfterApply() (err error) {
	c.ConnectionID, c.ProviderConfigKey, err = splitConnections(c.ConnectionID, c.ProviderConfigKey)
	return err
}

// AfterApply takes provider configurations off the ids of connections.
func (c *subscriptionsList) AfterApply() (err error) {
	c.ConnectionID, c.ProviderConfigKey, err = splitConnections(c.ConnectionID, c.ProviderConfigKey)
	return err
}

// AfterApply takes the provider configuration off the id of a connection.
func (f *subscriptionFields) AfterApply() error {
	key, connectionID, found := strings.Cut(f.ConnectionID, "/")
	switch {
	case !found:
	case f.ProviderConfigKey != "" && f.ProviderConfigKey != key:
		return usageError("--connection-id " + f.ConnectionID + " and --provider-config-key " + f.ProviderConfigKey +
			" name different provider configurations")
	default:
		f.ProviderConfigKey, f.ConnectionID = key, connectionID
	}
	return nil
}
