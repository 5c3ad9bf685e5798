// Package crash runs the real binary and takes from it what machines take from servers: the process at a random moment,
// the database, the disk. It has no code of its own; its tests compare what was acknowledged and what arrived at a
// receiver with what the database holds, and so check the guarantees that docs/arch/guarantees.md gives.
package crash
