// Package mutants asks whether the tests would notice. It plants the bugs that lose jobs, double them or blame the wrong one,
// one at a time, and holds that the check which is there for that bug fails, and that it is this check that does.
//
// A bug is planted by Go's -overlay, which shows the compiler other text in the place of a file, embedded scripts included:
// the tree is never written to, and a build of the program inside a test has the bug as well.
//
// docs/mutants.md lists them; a test keeps it so.
package mutants
