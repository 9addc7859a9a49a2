package main

import (
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/belayq/belay/retry"
)

// shortages are the errors of a kernel that lacks resources for a new process, pipe or small file. They are
// not the job's fault: it has not run. EBADF is one of them: a forked child moves its files behind the
// inherited ones, and the next descriptor may exceed its limit.
var shortages = []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EBADF, syscall.ENOSPC, syscall.EDQUOT}

// calmAfter is how long all programs must start before a shortage counts as over. At the limit some starts
// succeed and some fail, and a line for each change would fill the log.
const calmAfter = 10 * time.Second

// A shortage is an episode in which the kernel refuses to start programs. Its methods may be called from any
// goroutine.
type shortage struct {
	log *slog.Logger
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
		s.log.Error("programs cannot be started; jobs are requeued",
			"error", err, "advice", "raise the limit on processes, memory or open files, make room in TMPDIR, or lower --concurrency")
	}
}

// started records that a program was started.
func (s *shortage) started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused > 0 && s.now().Sub(s.lastSeen) >= calmAfter {
		s.log.Info("programs can be started again", "requeued", s.refused)
		s.refused = 0
	}
}
