// Package driver is the seam between Belay and whichever Redis client it is used with: run scripts, send a pipeline,
// wait for a job.
//
// It exists because the clients disagree about what a job system cannot leave open: whether a command whose answer
// was lost is sent again, what is known of a call that failed, how long a blocked call may block. Behind the seam:
//
//   - a call is executed at most once; who wants it executed again sends it again
//   - every failure says whether the call may have been executed (Certain) and whether waiting cures it (Outage)
//   - answers that came before a connection broke are kept
//   - scripts are loaded when the server turns out not to know them, each by itself and in order (Dialect)
//   - a wait ends at its limit, or is released, and nothing moves unseen but under an uncertain error
//   - answers have one shape: nil, string, int64, []any
//
// The tests of this package (TestConformance) state each promise, and run against both adapters.
//
// The package itself speaks to no server. It must not know what a job is, and not grow a verb for each Redis command.
package driver
