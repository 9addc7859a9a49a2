// Command bench measures Belay on this machine.
//
// Its figures are of one run on one machine: compare ratios inside a run, and quote the command, the machine and the
// date with any figure. Nothing here decides a test.
package main
