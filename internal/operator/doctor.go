package operator

import (
	"context"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

// CheckStatus is the outcome of one of Doctor's checks.
type CheckStatus string

// The outcomes. A check is skipped where what it looks at is not in use, or could not be reached by an earlier check.
const (
	CheckOK   CheckStatus = "ok"
	CheckSkip CheckStatus = "skip"
	CheckWarn CheckStatus = "warn"
	CheckFail CheckStatus = "fail"
)

// Check is one thing that Doctor looked at. Message and Hint hold no secret.
type Check struct {
	Name    string      `json:"name"`
	Status  CheckStatus `json:"status"`
	Message string      `json:"message"`
	// Hint says what to do; empty where nothing is to be done.
	Hint string `json:"hint,omitempty"`
}

// Diagnosis holds the findings of Doctor.
type Diagnosis struct {
	// Status is the worst of the checks': ok, warn or fail.
	Status CheckStatus `json:"status"`
	Checks []Check     `json:"checks"`
}

// checkTimeout bounds each check.
const checkTimeout = 10 * time.Second

// doctor holds what earlier checks opened for later ones.
type doctor struct {
	cfg   *config.Config
	clock clock.Clock

	db *db.DB // nil while the database cannot be used
	// current says that the schema is the binary's, so that its tables can be read.
	current bool
	box     *secretbox.Box // nil while the keyset cannot be used
}

// Doctor looks at what a server with this configuration stands on. It changes nothing and works with and without a
// server running.
func Doctor(ctx context.Context, cfg *config.Config, clk clock.Clock) (Diagnosis, error) {
	d := &doctor{cfg: cfg, clock: clk}
	out := Diagnosis{Status: CheckOK}
	for _, c := range []struct {
		name string
		run  func(context.Context) Check
	}{
		{"disk", d.disk},
		{"database", d.database},
		{"schema", d.schema},
		{"durability", d.durability},
		{"clock", d.clocks},
		{"keyset", d.keyset},
		{"sealed values", d.sealed},
		{"providers", d.definitions},
		{"nodes", d.nodes},
		{"deliveries", d.deliveries},
		{"listeners", d.listeners},
		{"certificate", d.certificate},
		{"public URL", d.publicURL},
		{"trusted proxies", d.proxies},
		{"egress", d.egress},
	} {
		one, cancel := context.WithTimeout(ctx, checkTimeout)
		check := c.run(one)
		cancel()
		check.Name = c.name
		out.Checks = append(out.Checks, check)
		out.Status = worse(out.Status, check.Status)
	}
	if d.db != nil {
		return out, d.db.Close()
	}
	return out, nil
}

// worse returns the graver of an overall status and a check's.
func worse(overall, check CheckStatus) CheckStatus {
	if check == CheckFail || check == CheckWarn && overall == CheckOK {
		return check
	}
	return overall
}

func ok(message string) Check         { return Check{Status: CheckOK, Message: message} }
func skip(message string) Check       { return Check{Status: CheckSkip, Message: message} }
func warn(message, hint string) Check { return Check{Status: CheckWarn, Message: message, Hint: hint} }
func fail(message, hint string) Check { return Check{Status: CheckFail, Message: message, Hint: hint} }

// failure is a check that failed over an error.
func failure(err error) Check { return fail(err.Error(), Hint(err)) }
