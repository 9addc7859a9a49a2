// Package mutants checks that the tests detect bugs. It plants bugs that lose jobs, double them or move the
// wrong one to the dead set, one at a time, and requires that the check named for the bug fails, for the
// intended reason.
//
// Go's -overlay plants a bug: it gives the compiler another text for a file, embedded scripts included. No file
// of the tree changes, and programs that a test builds contain the bug as well.
//
// docs/mutants.md lists the bugs; a test keeps the list true.
package mutants
