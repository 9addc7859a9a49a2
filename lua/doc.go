// Package lua defines how jobs are stored in Redis, and every way they may move. This package is not public
// API: only what package belay exports from it carries a compatibility promise.
//
// Each move is one script, x.lua, with one typed Go function in x.go; code that scripts share is in shared. A
// job moves by one script only, so that at every instant it is in exactly one place. A script checks
// everything before its first write, because Redis rolls nothing back. It decodes no payload, because a job
// is its bytes. It declares every key, and its work and its reply are bounded in items (MaxItems) and in
// bytes (MaxBytes). keys.go has the names of all keys.
//
// recover.lua moves the jobs of a worker that died.
//
// This package must never decide whether a job is retried, which process may be declared dead, or which queue
// comes first. Its callers decide, and the scripts make sure that acting on it is safe.
package lua
