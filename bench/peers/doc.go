// Package peers is the home of the job systems that the bench compares Belay with. Each folder with a main
// program in it is a subject: one system, set up as its own authors would, that does one measure and then
// ends.
//
// A subject is a process of its own, so that no system shares a heap, a scheduler or a connection with
// another or with the clock that measures it. Package subject of the bench describes the conversation that it
// keeps with the bench. For those written in Go, package talk is the subject's end of that, package measure
// does the measures, and a subject's own folder says only how its system is used, and why that is its best.
//
// The subjects written in Go are a module of their own, so that programs which import Belay do not get their
// dependencies.
package peers
