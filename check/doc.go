// Package check checks whether a Redis, and what this user may do there, are fit for Belay.
//
// A worker runs the checks when it starts and logs what is not ok ([LogFindings]); `belay check` prints all
// [Findings]. It is not part of package inspect, because every worker links it and only operators need the
// other.
//
// First the facts are read ([Redis]). Each check is a pure function of them, so that it can be tested without a
// server of that kind. needs.go lists every command that Belay calls.
//
// A check must never change anything in Redis, nor call a command that is known to be denied.
package check
