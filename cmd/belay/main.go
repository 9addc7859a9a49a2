// Command belay is Belay on the command line: it runs jobs with programs as handlers, pushes jobs, shows
// queues and workers, acts on jobs, and demonstrates that killed workers lose nothing.
//
// Its names and exit statuses are a contract: scripts rely on them. It must never print the password of a
// Redis URL or log a job's arguments, and text from Redis must never control the terminal.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
