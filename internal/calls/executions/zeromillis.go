package executions

import (
	"database/sql/driver"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
)

// zeroMillis binds a time to a column of milliseconds in which 0 is the zero time.
type zeroMillis struct{ field *time.Time }

// Scan implements sql.Scanner.
func (b zeroMillis) Scan(src any) error {
	ms, ok := src.(int64)
	if !ok {
		return fmt.Errorf("a time is a %T", src) //nolint:err113 // of a broken schema
	}
	if *b.field = (time.Time{}); ms != 0 {
		*b.field = clock.FromMillis(ms)
	}
	return nil
}

// Value implements driver.Valuer.
func (b zeroMillis) Value() (driver.Value, error) {
	if b.field.IsZero() {
		return int64(0), nil
	}
	return clock.Millis(*b.field), nil
}
