// Command belay is Belay on the command line: it works off jobs with programs as handlers, pushes jobs, shows what is
// going on, and demonstrates the promise that it makes.
//
// Its names and exit statuses are a contract: scripts rely on them. It must never print the password of a Redis URL, nor
// a job's arguments into a log, nor let what others have put into Redis speak to the terminal.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
