// Package lua is how jobs lie in Redis and every way they may move.
//
// Each way is one script, x.lua, with one typed Go function beside it in x.go; what scripts share stands once, in shared. A job moves by one script only, so that at
// every instant it is in exactly one place; a script checks everything before its first write, because Redis rolls
// nothing back; it decodes no payload, because a job is its bytes; it declares every key, and its work and its reply
// are bounded in items (MostItems) and in bytes (MostBytes). All names of keys are spelled in keys.go.
//
// What happens to the jobs of a worker that died is in recover.lua.
//
// This package must never decide: whether a job is retried, who may be declared dead or which queue comes first is
// settled by its callers, and the scripts only make sure that acting on it is safe.
package lua
