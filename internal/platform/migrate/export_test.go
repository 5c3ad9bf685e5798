package migrate

import (
	"context"

	"sallyport/internal/platform/db"
)

// DownTo undoes the migrations after a version.
func DownTo(ctx context.Context, d *db.DB, version int64) error {
	p, err := provider(d)
	if err == nil {
		_, err = p.DownTo(ctx, version)
	}
	return err
}
