// Package job says what a job is on the wire and in memory: Sidekiq's payload, its raw bytes kept, decoded lazily.
//
// It exists because a job's bytes are its identity. Redis finds a job by them, Ruby reads them, and people put things
// in args that no Go type holds (integers beyond 2^53, 1.0 that must not become 1). So a payload is scanned once, by
// a scanner that remembers where each envelope field stands, and a field that must change is changed there: every
// other byte stays as its producer wrote it. encoding/json cannot do that, it has no spans.
//
// The package also writes new payloads as Ruby would ([Draft], [MarshalArgs]) and names every way a run of a job may
// end ([Outcome]).
//
// It must never re-marshal a payload it was given, never panic over one, and never speak to Redis.
package job
