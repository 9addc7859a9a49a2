package belay

import "github.com/belayq/belay/launcher"

// Counters holds what a Server has counted since NewServer: its Runs by class and queue, the jobs that it
// Recovered and Lost, its RoundTrips to Redis and the Unanswered ones; and how many jobs it runs now: Busy, of
// Concurrency at most. Package metrics exports them to Prometheus.
type Counters struct {
	launcher.Counters
	// DroppedLogLines counts lines that were not logged because the reader of the log was too slow or
	// panicked.
	DroppedLogLines uint64
}

// Counters returns the counters of the server. It may be called at any time.
func (s *Server) Counters() Counters {
	return Counters{s.made("Counters").Counters(), s.buffer.Dropped()}
}
