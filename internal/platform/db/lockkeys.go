package db

// Keys of the locks of the whole database, for AdvisoryLock, TryLock and pg_try_advisory_xact_lock. They are one space
// for all of PostgreSQL's advisory locks, whoever takes them and for however long, and stand together so that no two
// tasks ever shut each other out. They never change: nodes of two releases work beside each other.
const (
	// LockPartitions is held while partitions are made.
	LockPartitions int64 = 7_245_092
	// LockSequence is held while records of the log of events get their positions.
	LockSequence int64 = 7_245_093
	// LockSeal is held while entries of the audit trail get their numbers.
	LockSeal int64 = 7_245_094
	// LockRetention is held by the node that removes what has lived long enough.
	LockRetention int64 = 7_245_095
)
