package secretbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Count returns how many values of the columns each key sealed, by its id; those that no key can have sealed are under
// 0. It reads at most 500 rows at a time. If ctx ends it returns what it has counted, with the error.
func Count(ctx context.Context, d Database, columns []Column) (map[uint32]int, error) {
	counts := map[uint32]int{}
	for _, c := range columns {
		for after := ""; ; {
			last, err := countPage(ctx, d.Read(), c, after, counts)
			if err != nil {
				return counts, fmt.Errorf("secretbox: count the values of %s.%s: %w", c.Table, c.Column, err)
			}
			if last == "" {
				break
			}
			after = last
		}
	}
	return counts, nil
}

// countPage counts the values of the next rows by id and returns the last id, which is empty at the end.
func countPage(ctx context.Context, d *sql.DB, c Column, after string, counts map[uint32]int) (last string,
	err error) {
	//nolint:gosec // the identifiers come from code, the values are bound
	rows, err := d.QueryContext(ctx, "SELECT "+c.IDColumn+", substr("+c.Column+", 1, 5) FROM "+c.Table+" WHERE "+
		c.IDColumn+" > $1 ORDER BY "+c.IDColumn+" LIMIT $2", after, window)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var prefix []byte
		if err := rows.Scan(&last, &prefix); err != nil {
			return "", err
		}
		if prefix != nil {
			key, _ := KeyID(prefix)
			counts[key]++
		}
	}
	return last, rows.Err()
}
