// Package job defines a job on the wire and in memory: Sidekiq's payload, with its raw bytes, decoded
// lazily.
//
// It exists because a job's bytes are its identity. Redis finds a job by its bytes, Ruby reads them, and
// args contain values that a Go type would change (integers beyond 2^53, 1.0 that must not become 1). So a
// payload is scanned once, the scanner records the position of each envelope field, and an edit changes
// only that field: every other byte stays as the producer wrote it. encoding/json does not report
// positions.
//
// The package also writes new payloads as Ruby would ([Draft], [MarshalArgs]), and defines every way in
// which a run of a job may end ([Outcome]).
//
// It must never re-marshal a payload that it was given, never panic because of one, and never send commands
// to Redis.
package job
