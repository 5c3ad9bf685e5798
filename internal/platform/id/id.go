// Package id makes and recognises the identifiers of the service.
//
// Rows sorted by time (events, deliveries, attempts) carry a UUIDv7 (RFC 9562) as 36 characters of lower-case text.
// What people handle carries a prefix and a sortable body of 26 characters. Whatever routes or unlocks is 128 random
// bits. A path id is checked by its shape before it reaches SQL, so an id that cannot exist costs no query.
package id

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Environment is the id of an environment: the typed argument that every store method of an environment's data takes.
type Environment string

// Team is the id of a team.
type Team string

// Prefixes of the ids that people handle.
const (
	PrefixTeam            = "team_"
	PrefixEnvironment     = "env_"
	PrefixUser            = "usr_"
	PrefixAPIKey          = "key_"
	PrefixGrant           = "grt_"
	PrefixSubscription    = "sub_"
	PrefixSecret          = "whs_"
	PrefixAuditEvent      = "aud_"
	PrefixSigningKey      = "jwk_"
	PrefixSession         = "ses_"
	PrefixPathToken       = "whk_"
	PrefixRejection       = "rej_"
	PrefixStreamTicket    = "tkt_"
	PrefixReplay          = "rpl_"
	PrefixSetupToken      = "sps_"
	PrefixSSO             = "sso_"
	PrefixRole            = "rol_"
	PrefixBinding         = "rbd_"
	PrefixResetToken      = "spr_"
	PrefixMail            = "mail_"
	PrefixInvitation      = "inv_"
	PrefixInvitationToken = "spi_"
)

const bodyLength = 26

// crockford is the alphabet of Crockford's base32 in lower case: its order is that of the bytes, so bodies sort by
// time.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

func encoding() *base32.Encoding { return base32.NewEncoding(crockford).WithPadding(base32.NoPadding) }

// NewUUID returns a UUIDv7. Within one process later calls return greater values.
func NewUUID() string { return uuid.Must(uuid.NewV7()).String() }

// New returns prefix and a sortable body of 26 characters.
func New(prefix string) string {
	u := uuid.Must(uuid.NewV7())
	return prefix + encoding().EncodeToString(u[:])
}

// NewRandom returns prefix and 128 random bits, for values that route or unlock.
func NewRandom(prefix string) string {
	var b [16]byte
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(b[:])
	return prefix + encoding().EncodeToString(b[:])
}

// IsUUID reports whether s is a UUID in the one form that is stored: lower case, 36 characters.
func IsUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// Time returns the time that a UUIDv7 carries, to the millisecond; the zero time for anything else.
func Time(s string) time.Time {
	u, err := uuid.Parse(s)
	if err != nil || u.Version() != 7 {
		return time.Time{}
	}
	return time.Unix(u.Time().UnixTime()).Truncate(time.Millisecond).UTC()
}

// FirstUUID returns the least UUIDv7 of a time, to the millisecond: that of 1970 for what is before.
func FirstUUID(t time.Time) string {
	const lastMillis = 1<<48 - 1
	ms := min(max(t.UnixMilli(), 0), lastMillis)
	return fmt.Sprintf("%08x-%04x-7000-8000-000000000000", ms>>16, ms&0xffff)
}

// LooksLikeUUID reports whether s has the shape of a UUID in either case, with or without dashes.
func LooksLikeUUID(s string) bool {
	_, err := uuid.Parse(s)
	return err == nil
}

// Matcher returns Is for one prefix.
func Matcher(prefix string) func(string) bool {
	return func(s string) bool { return Is(prefix, s) }
}

// Is reports whether s is prefix followed by a body that New or NewRandom can have made.
func Is(prefix, s string) bool {
	body, ok := strings.CutPrefix(s, prefix)
	if !ok || len(body) != bodyLength {
		return false
	}
	for i := range len(body) {
		if strings.IndexByte(crockford, body[i]) < 0 {
			return false
		}
	}
	return true
}
