// Package registry loads the provider definitions, those that are built in and those of a folder.
package registry
