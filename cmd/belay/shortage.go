package main

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/retry"
)

// shortages are the errors of a kernel that lacks resources for a new process or pipe. They are not the job's
// fault: it has not run. EBADF is one of them: a forked child moves its files behind the inherited ones, and
// the next descriptor may exceed its limit.
var shortages = []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EBADF}

// calmAfter is how long all programs must start before a shortage counts as over. At the limit some starts
// succeed and some fail, and a line for each change would fill the log.
const calmAfter = 10 * time.Second

// A shortage is an episode in which the kernel refuses to start programs. Its methods may be called from any
// goroutine.
type shortage struct {
	log zerolog.Logger
	now func() time.Time

	mu       sync.Mutex
	refused  int // jobs requeued in this episode; 0 when there is none
	lastSeen time.Time
}

// judge returns the runner's error for a program that could not be started. A shortage requeues the job, and
// the first such job of an episode is logged.
func (s *shortage) judge(err error) error {
	for _, of := range shortages {
		if errors.Is(err, of) {
			s.note(err)
			return retry.Requeue(err)
		}
	}
	return err
}

func (s *shortage) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
	s.lastSeen = s.now()
	if s.refused == 1 {
		s.log.Error().Err(err).Str("advice", "raise the limit on processes, memory or open files, or lower --concurrency").
			Msg("no room to start a program; jobs are requeued")
	}
}

// started records that a program was started.
func (s *shortage) started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused > 0 && s.now().Sub(s.lastSeen) >= calmAfter {
		s.log.Info().Int("requeued", s.refused).Msg("programs can be started again")
		s.refused = 0
	}
}
