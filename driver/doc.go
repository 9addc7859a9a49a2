// Package driver is the interface between Belay and a Redis client: run scripts, send a pipeline, wait for
// a job.
//
// It exists because clients differ where a job system needs certainty: whether a command is sent again
// after its reply was lost, what is known about a failed call, and how long a blocked call may block. With
// this interface:
//
//   - a call is executed at most once; a caller that wants it executed again sends it again
//   - Certain reports for every error whether the call was certainly not executed without a reply, and Outage
//     whether the same call may succeed later
//   - replies that came before a connection broke are kept
//   - a script that the server does not have is loaded, each script separately and in order (ScriptSender)
//   - a wait ends at its limit or when it is released, and returns every entry that it moved, except after an
//     uncertain error
//   - replies have neutral types: nil, string, int64, []any
//   - one URL means the same to all (ParseURL), and each connection leads to the server of that moment (Dialer)
//
// The tests of this package (TestConformance) state each promise and run against both adapters, and, where a
// promise needs no connection, against the client in memory of package belaytest.
//
// The package itself sends nothing. It must not depend on jobs, and must not get a method per Redis
// command.
package driver
