package belay

import (
	"fmt"
	"time"
)

// JanitorEvery is the least time between the two looks at a process that seems dead; a heartbeat without it. More of it
// makes recovery slower, and never less sure.
func JanitorEvery(d time.Duration) ServerOption {
	return func(c *serverConfig) { c.Janitor = d; c.refuseZero("the time between two looks", d) }
}

// PollEvery is the most time between two looks for jobs that have come due, by one server of all; 100 ms without it.
func PollEvery(d time.Duration) ServerOption {
	return func(c *serverConfig) { c.Poll = d; c.refuseZero("the time between two polls", d) }
}

// PollWait sets how long after its start the server leaves due jobs to other servers. Default: 0. Raise it if
// a start has more urgent work. A server that is alone runs no scheduled job in that time.
func PollWait(d time.Duration) ServerOption { return func(c *serverConfig) { c.PollWait = d } }

// refuseZero keeps a 0, which a Config would take for "not said", from being silently replaced.
func (c *serverConfig) refuseZero(what string, d time.Duration) {
	if d == 0 {
		c.wrong = append(c.wrong, fmt.Errorf("%s is 0: it must be more; leave it out for the default", what))
	}
}

// ProcessTag is shown by Sidekiq's dashboard beside the server's name, such as the name of the program.
func ProcessTag(tag string) ServerOption { return func(c *serverConfig) { c.Tag = tag } }

// ProcessLabels are shown by Sidekiq's dashboard with the server. They replace earlier ones.
func ProcessLabels(labels ...string) ServerOption { return func(c *serverConfig) { c.Labels = labels } }

// Check says what is wrong with the server's options, all of it at once, as Run does; nil for nothing. It asks nobody.
func (s *Server) Check() error {
	s.made("Check")
	return s.wrong
}
