package db

import "hash/fnv"

// LockKey names a lock of the whole database, for AdvisoryLock, TryAdvisoryLock and TryLock. PostgreSQL has one space
// of keys for all advisory locks, for transactions and sessions alike. All keys stand in this file, so that no two
// tasks share one by accident. They never change: nodes of two releases work next to each other.
type LockKey int64

const (
	// LockTestTemplate is held while a test makes the template database of the schema.
	LockTestTemplate LockKey = 7_245_091
	// LockPartitions is held while partitions are made.
	LockPartitions LockKey = 7_245_092
	// LockSequence is held while records of the log of events get their positions.
	LockSequence LockKey = 7_245_093
	// LockSeal is held while entries of the audit trail get their numbers.
	LockSeal LockKey = 7_245_094
	// LockRetention is held by the node that removes what is older than its retention.
	LockRetention LockKey = 7_245_095
	// LockReseal is held by the node that encrypts values again with a new key.
	LockReseal LockKey = 7_245_096
	// LockSetup is held by transactions that make what exists once.
	LockSetup LockKey = 0x5a11_0001
	// LockRights is held by transactions that change who may do what: the last owner is counted over several rows.
	LockRights LockKey = 0x5a11_0004
	// LockMigrations is held by the process that migrates the schema. It is goose's own default.
	LockMigrations LockKey = 4_097_083_626
)

// LockFor returns the key of a lock that exists once for each subject, such as an environment. The task is the name of
// a table. Two subjects with the same hash only wait for each other.
func LockFor(task, subject string) LockKey {
	h := fnv.New64a()
	_, _ = h.Write([]byte(task + " " + subject))
	return LockKey(h.Sum64()) //nolint:gosec // any 64 bits will do
}
