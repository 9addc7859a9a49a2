package main

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/retry"
)

// shortages are the errors with which the kernel refuses a new process or a new pipe for want of room. They say nothing
// about the job: it has not run. EBADF is one of them: a forked child puts its files behind those that it was given, where
// the number of the next one may be beyond its limit.
var shortages = []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EBADF}

// calmAfter is how long programs must have started without a refusal for a shortage to be over. At the limit some start and some
// do not, and a line for each change would fill the log.
const calmAfter = 10 * time.Second

// A shortage is an episode in which the kernel starts no more programs. Its methods may be called from any goroutine.
type shortage struct {
	log zerolog.Logger
	now func() time.Time

	mu       sync.Mutex
	refused  int // jobs requeued in this episode; 0 when there is none
	lastSeen time.Time
}

// judge is what the runner returns of an error at the start of a program: for want of room the job is requeued, and the
// first such job of an episode is logged.
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

// started notes that a program could be started.
func (s *shortage) started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused > 0 && s.now().Sub(s.lastSeen) >= calmAfter {
		s.log.Info().Int("requeued", s.refused).Msg("programs can be started again")
		s.refused = 0
	}
}
