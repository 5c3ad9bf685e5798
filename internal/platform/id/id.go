// Package id creates and recognises the identifiers of the service.
//
// Rows sorted by time (events, deliveries, attempts) have a UUIDv7 (RFC 9562) of 36 lower-case characters. Ids that
// users handle have a prefix and a sortable body of 26 characters. Tokens have 128 random bits. The form of an id in a
// path is checked before any query, so an impossible id costs none.
package id

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Environment is the id of an environment. Every store method on an environment's data takes it as a typed argument.
type Environment string

// Team is the id of a team.
type Team string

// Prefixes of the ids that users handle.
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
	PrefixSample          = "smp_"
	PrefixStreamTicket    = "tkt_"
	PrefixReplay          = "rpl_"
	PrefixImport          = "imp_"
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

// crockford is the alphabet of Crockford's base32 in lower case. It is in byte order, so bodies sort by time.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

func encoding() *base32.Encoding { return base32.NewEncoding(crockford).WithPadding(base32.NoPadding) }

// NewUUID returns a UUIDv7. Within one process, later calls return greater values.
func NewUUID() string { return uuid.Must(uuid.NewV7()).String() }

// New returns an id of prefix and a sortable body of 26 characters.
func New(prefix string) string {
	u := uuid.Must(uuid.NewV7())
	return prefix + encoding().EncodeToString(u[:])
}

// NewRandom returns a value of prefix and 128 random bits, for tokens.
func NewRandom(prefix string) string {
	var b [16]byte
	// crypto/rand.Read never returns an error; it ends the program if the system has no entropy.
	_, _ = rand.Read(b[:])
	return prefix + encoding().EncodeToString(b[:])
}

// IsUUID reports whether s is a UUID in the stored form: 36 lower-case characters.
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

// Time returns the time of a UUIDv7 in milliseconds, or the zero time for any other string.
func Time(s string) time.Time {
	u, err := uuid.Parse(s)
	if err != nil || u.Version() != 7 {
		return time.Time{}
	}
	return time.Unix(u.Time().UnixTime()).Truncate(time.Millisecond).UTC()
}

// FirstUUID returns the smallest UUIDv7 of a time in milliseconds. Times before 1970 count as 1970.
func FirstUUID(t time.Time) string {
	const lastMillis = 1<<48 - 1
	ms := min(max(t.UnixMilli(), 0), lastMillis)
	return fmt.Sprintf("%08x-%04x-7000-8000-000000000000", ms>>16, ms&0xffff)
}

// LooksLikeUUID reports whether s has the form of a UUID in upper or lower case, with or without dashes.
func LooksLikeUUID(s string) bool {
	_, err := uuid.Parse(s)
	return err == nil
}

// Matcher returns Is for one prefix.
func Matcher(prefix string) func(string) bool {
	return func(s string) bool { return Is(prefix, s) }
}

// Is reports whether s has the form of a result of New or NewRandom with this prefix.
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
