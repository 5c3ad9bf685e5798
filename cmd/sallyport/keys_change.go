package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/operator"
	"sallyport/internal/platform/secretbox"
)

// keyID is the argument of commands that work on one key.
type keyID struct {
	ID string `arg:"" name:"key_id" help:"The key's id, as shown by keys list."`
}

// change calls f on the key and prints the key's new state.
func (c keyID) change(ctx context.Context, e *env, f func(s *operator.Store) (operator.Key, error)) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		k, err := f(s)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "%s (%s) is %s\n", k.ID, k.Name, k.Status)
		return err
	})
}

type keysGet struct{ keyID }

// Run prints the key and the first of its grants, without its secret.
func (c keysGet) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		k, err := s.Key(ctx, e.clock.Now(), c.ID)
		if err != nil {
			return err
		}
		return printJSON(e.stdout, k)
	})
}

type keysUpdate struct {
	keyID
	Name        *string        `placeholder:"TEXT" help:"The purpose of the key."`
	ExpiresIn   *time.Duration `placeholder:"DURATION" help:"The time from now until the key expires. An expired key becomes valid again."`
	SourceCIDRs []string       `name:"source-cidrs" xor:"source" placeholder:"CIDR" help:"The networks that the key works from, replacing the present ones."`
	AnySource   bool           `xor:"source" help:"Let the key work from all networks."`
	keyRate
	ServiceRate bool `help:"Apply the service's rate limit for each key, instead of the key's own."`
}

// Validate rejects a command that changes nothing, and an expiry in the past.
func (c *keysUpdate) Validate() error {
	if c.Name == nil && c.ExpiresIn == nil && c.SourceCIDRs == nil && !c.AnySource && c.keyRate == (keyRate{}) &&
		!c.ServiceRate {
		return errors.New("nothing to change: give --name, --expires-in, --source-cidrs or --any-source, " +
			"--rate-per-second and --rate-burst or --service-rate")
	}
	if c.limit() != nil && c.ServiceRate {
		return errors.New("--service-rate and --rate-per-second can't be used together")
	}
	if c.ExpiresIn != nil && *c.ExpiresIn <= 0 {
		return errors.New("--expires-in must be above 0")
	}
	return nil
}

// Run changes the properties that are given.
func (c *keysUpdate) Run(ctx context.Context, e *env) error {
	u := operator.KeyUpdate{Name: c.Name, Lifetime: c.ExpiresIn}
	if c.AnySource || c.SourceCIDRs != nil {
		u.SourceCIDRs = &c.SourceCIDRs
	}
	if l := c.limit(); l != nil || c.ServiceRate {
		u.Rate = &l
	}
	return c.change(ctx, e, func(s *operator.Store) (operator.Key, error) {
		return s.UpdateKey(ctx, e.clock.Now(), c.ID, u)
	})
}

type keysRotate struct {
	keyID
	Overlap time.Duration `default:"24h" placeholder:"DURATION" help:"Time that the old secret stays valid; 0s ends every secret but the new one."`
	JSON    bool          `name:"json" help:"Print JSON: the key's properties, and the key itself as \"key\"."`
}

// Validate applies the limits of the API to the overlap.
func (c *keysRotate) Validate() error {
	if c.Overlap%time.Second != 0 || c.Overlap < 0 || c.Overlap > operator.MaxKeyOverlap {
		return fmt.Errorf("--overlap must be whole seconds from 0s to %s", operator.MaxKeyOverlap)
	}
	return nil
}

// Run prints only the key with its new secret on standard output, so that a script can read it.
func (c *keysRotate) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		k, text, err := s.RotateKey(ctx, e.clock.Now(), c.ID, c.Overlap)
		if err != nil {
			return err
		}
		old := "The old secret is no longer valid."
		if k.PreviousUntil != nil {
			old = "The old secret is valid until " + second(time.Time(*k.PreviousUntil)) + "."
		}
		return e.printKey(k, text, c.JSON, k.ID+", of environment "+k.Environment+". "+old+" The key is shown only once.")
	})
}

type keysDisable struct{ keyID }

// Run disables the key. Disabling it again changes nothing.
func (c keysDisable) Run(ctx context.Context, e *env) error {
	return c.change(ctx, e, func(s *operator.Store) (operator.Key, error) {
		return s.DisableKey(ctx, e.clock.Now(), c.ID)
	})
}

type keysEnable struct{ keyID }

// Run enables the key. An expired key stays expired.
func (c keysEnable) Run(ctx context.Context, e *env) error {
	return c.change(ctx, e, func(s *operator.Store) (operator.Key, error) { return s.EnableKey(ctx, e.clock.Now(), c.ID) })
}

type keysRevoke struct{ keyID }

// Run revokes the key. Revoking it again changes nothing.
func (c keysRevoke) Run(ctx context.Context, e *env) error {
	return c.change(ctx, e, func(s *operator.Store) (operator.Key, error) { return s.RevokeKey(ctx, e.clock.Now(), c.ID) })
}

type keysUsage struct {
	keyID
	From   moment `placeholder:"TIME" help:"Start of the range, as a time (RFC 3339) or a duration ago, such as 90m or 48h. Default: a day before its end by hour, 30 days by day."`
	To     moment `placeholder:"TIME" help:"End of the range, as a time or a duration ago. Default: now."`
	Bucket string `enum:"hour,day" default:"day" placeholder:"LENGTH" help:"Length of a bucket: hour or day."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Run shows the requests with the key, oldest first. A running server stores them once a minute.
func (c keysUsage) Run(ctx context.Context, e *env) error {
	now := e.clock.Now()
	r := operator.UsageRange{Bucket: c.Bucket}
	if c.From.given {
		r.From = new(c.From.time(now))
	}
	if c.To.given {
		r.To = new(c.To.time(now))
	}
	return e.withStore(ctx, func(s *operator.Store) error {
		list, err := s.KeyUsage(ctx, c.ID, r)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.stdout, list)
		}
		rows := [][]string{{"START", "ROUTE", "OUTCOME", "REQUESTS"}}
		for _, u := range list {
			rows = append(rows, []string{second(time.Time(u.Start)), string(u.Route), string(u.Outcome),
				strconv.FormatInt(u.Requests, 10)})
		}
		return printTable(e.stdout, rows)
	})
}

type keysVerify struct {
	File string `arg:"" default:"-" name:"file" help:"The file that contains the text; - reads standard input. A file keeps the text out of process lists."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// errNotAKey reports that the text is not a valid key. It makes the exit code 1.
var errNotAKey = errors.New("the text is not a valid API key")

// Run prints the key that the text belongs to. The exit code reports whether the key is valid.
func (c keysVerify) Run(ctx context.Context, e *env) error {
	text, err := e.readSecret(c.File)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(s *operator.Store) error {
		v, err := s.VerifyKey(ctx, e.clock.Now(), secretbox.Secret(text))
		if err != nil {
			return err
		}
		switch {
		case c.JSON:
			err = printJSON(e.stdout, v)
		case v.Match != nil:
			_, err = fmt.Fprintf(e.stdout, "%s (%s) of environment %s, %s secret, %s\n", v.Match.ID, v.Match.Name,
				v.Match.Environment, *v.Generation, v.Match.Status)
		}
		if err == nil && !v.Valid {
			err = errNotAKey
		}
		return err
	})
}
