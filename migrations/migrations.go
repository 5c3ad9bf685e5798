// Package migrations embeds the schema: one sequence of numbers, one text for both engines where it can be, and one
// text per engine under sqlite/ and postgres/ where it cannot.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed *.sql sqlite/*.sql postgres/*.sql
var files embed.FS

// Common returns the migrations that both engines share.
func Common() fs.FS { return files }

// SQLite returns the migrations of SQLite alone.
func SQLite() fs.FS { return sub("sqlite") }

// Postgres returns the migrations of PostgreSQL alone.
func Postgres() fs.FS { return sub("postgres") }

func sub(dir string) fs.FS {
	s, err := fs.Sub(files, dir)
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	return s
}
