// Package peers contains the job systems that the bench compares Belay with. Each folder with a main program
// in it is a subject: one system, set up as its own authors would, that does one measure and then ends.
//
// A subject is a process of its own, so that no system shares a heap, a scheduler or a connection with
// another or with the clock that measures it. Package subject describes the conversation between subjects and
// the bench. Package measure does the measures for subjects written in Go, for Belay too where the figure is a
// time; a subject's own folder says only how its system is used, and why that is its best.
package peers
