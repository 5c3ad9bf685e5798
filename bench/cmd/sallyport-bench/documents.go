package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sallyport/bench/internal/procstat"
	"sallyport/internal/operator/corpus"
)

// documentsCommand reads descriptions of APIs as an import does.
type documentsCommand struct {
	Path    string `arg:"" help:"Document, or folder with documents, in JSON or YAML."`
	Schemas int    `default:"0" placeholder:"N" help:"Have every Nth schema compiled by an independent validator; 0 for none."`
	Formats int    `default:"0" placeholder:"N" help:"Write every Nth action in every format of tools and check it; 0 for none."`
	Slowest int    `default:"5" placeholder:"N" help:"How many of the slowest documents are listed."`
}

func (d *documentsCommand) run(ctx context.Context, stdout io.Writer) error {
	if err := corpus.Read(ctx, stdout, corpus.Options{Path: d.Path, Every: d.Schemas, Formats: d.Formats,
		Slowest: d.Slowest}); err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	m, err := procstat.Of(os.Getpid()).Memory()
	if err == nil {
		_, err = fmt.Fprintf(stdout, "peak memory: %d MB\n", m.Peak>>20)
	}
	return err //nolint:wrapcheck // it says what failed
}
