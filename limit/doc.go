// Package limit decides how many jobs of a class may run at once, or start in a time. This package is not
// public API: only what package belay exports from it carries a compatibility promise.
//
// It exists so that the names and sizes of limits can be read and tested without a server. A [Limit] has a name
// and a size: how many runs there may be at once, a [Rate] at which they may start, or both. Jobs of one limit
// with equal keys share a gate, which [Limit.Gate] returns. The scripts that start jobs ask the gate.
//
// It must never do I/O, read a clock or decode a payload.
package limit
