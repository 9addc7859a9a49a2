package fetch

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// Saved is the part of a job's state in Redis that the job's run reads and writes, such as its cursor. Fields
// that are set are written by the next Save, or by the settle. Its methods are safe for concurrent use.
//
// Each write has a version above those before it, and Redis refuses a lower one. So a write that was delayed
// on the network changes nothing, even if the same process has requeued and taken the job meanwhile.
type Saved struct {
	run *Run

	mu       sync.Mutex
	state    lua.JobState // Version is the highest that was used; Fields are those that Redis may not have yet
	cursor   string       // the last known cursor
	advanced bool         // the run has changed the cursor
	read     bool         // the version in Redis is known
	exists   bool         // Redis may have the state
	saving   bool
	closed   bool // the run is settled
	triedAt  time.Time
	keep     time.Duration // see End
}

// Saved returns the run's part of the state of its job, which is j. It is made at the first call, so other runs
// pay nothing.
func (r *Run) Saved(j *job.Job) *Saved {
	if s := r.saved.Load(); s != nil {
		return s
	}
	r.saved.CompareAndSwap(nil, &Saved{run: r, state: lua.StateOf(j), triedAt: time.Now()})
	return r.saved.Load()
}

// Leave makes the settle write this state for a job that dies without having been parsed.
func (r *Run) Leave(state lua.JobState) {
	r.saved.Store(&Saved{run: r, state: state, exists: true, keep: state.Keep})
}

// Advance sets the cursor, unless it is the last one. crashes is how many crashes the job has had.
func (s *Saved) Advance(cursor string, crashes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cursor != s.cursor {
		s.cursor, s.advanced = cursor, true
		s.setLocked(lua.FieldCursor, cursor)
		s.setLocked(lua.FieldCrashes, strconv.Itoa(crashes))
	}
}

// Advanced reports whether the run has advanced its job's cursor.
func (r *Run) Advanced() bool {
	s := r.saved.Load()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.advanced
}

// Set sets a field, to be written later. An empty value removes it.
func (s *Saved) Set(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(name, value)
}

func (s *Saved) setLocked(name, value string) {
	for at := 0; at < len(s.state.Fields); at += 2 {
		if s.state.Fields[at] == name {
			s.state.Fields[at+1] = value
			return
		}
	}
	s.state.Fields = append(s.state.Fields, name, value)
}

// End makes the settle keep the state for this long after the job's end, and notify those that wait for it.
func (s *Saved) End(keep time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = keep
}

// patience returns the timeout of a read or save that carries this many bytes. It allows for a new connection
// over the slowest link, however short a heartbeat is: only the run itself waits for it.
func (r *Run) patience(carried int) time.Duration {
	return link.Patience(max(r.space.cfg.CallTimeout, link.MaxRound), carried)
}

// Read reads the cursor and further fields of the state from Redis; "" stands for a missing field.
func (s *Saved) Read(ctx context.Context, further ...string) ([]string, error) {
	fields := append([]string{lua.FieldCursor}, further...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.run.patience(0))
	defer cancel()
	read, err := s.run.space.Keys.ReadState(s.state, fields...).Do(ctx, s.run.space.Client)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Version = max(s.state.Version, read.Version)
	if !s.advanced {
		s.cursor = read.Fields[0]
	}
	s.read, s.exists = true, s.exists || read.Version > 0 || slices.ContainsFunc(read.Fields, func(text string) bool { return text != "" })
	return read.Fields, nil
}

// Save writes the fields that were set, unless the last write was less than interval ago or another one is
// under way. It returns "" if nothing was written, or if Redis did not answer: then the fields stay set.
func (s *Saved) Save(ctx context.Context, interval time.Duration) lua.SaveWord {
	s.mu.Lock()
	if s.saving || s.closed || len(s.state.Fields) == 0 || time.Since(s.triedAt) < interval {
		s.mu.Unlock()
		return ""
	}
	s.saving, s.triedAt = true, time.Now()
	known := s.read
	s.mu.Unlock()

	word, err := lua.SaveWord(""), error(nil)
	if !known {
		_, err = s.Read(ctx)
	}
	if err == nil {
		word, err = s.write(ctx)
	}
	s.mu.Lock()
	s.saving = false
	s.mu.Unlock()
	if err != nil && !driver.Outage(err) {
		s.run.space.report.Refuse("save", err)
	}
	return word
}

// write sends one save. Fields that were set meanwhile stay set. What a run leaves at its end (see End) is left
// to the settle: a save that took it would leave the settle without fields.
func (s *Saved) write(ctx context.Context) (lua.SaveWord, error) {
	s.mu.Lock()
	if s.keep > 0 {
		s.mu.Unlock()
		return "", nil
	}
	s.state.Version++
	s.exists = true
	state, r, bytes := s.state, s.run, 0
	state.Keep, state.Fields = lua.KeepState, slices.Clone(state.Fields)
	s.mu.Unlock()

	for _, text := range state.Fields {
		bytes += len(text)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience(bytes+len(r.Bytes)))
	defer cancel()
	word, err := r.space.Keys.Save(r.Session.Identity, r.Queue, r.Bytes, r.quarantined, state).Do(ctx, r.space.Client)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []string
	for at := 0; at < len(s.state.Fields); at += 2 {
		if at >= len(state.Fields) || s.state.Fields[at+1] != state.Fields[at+1] {
			rest = append(rest, s.state.Fields[at], s.state.Fields[at+1])
		}
	}
	s.state.Fields = rest
	return word, nil
}

// stateAtEnd returns what a run's end does to its job's state. The state ends with the job. If the job
// continues, or can be retried from the dead set, the last fields are written. It returns nil if there is
// nothing to do, as for nearly all runs.
func (k *Keyspace) stateAtEnd(r *Run) *lua.JobState {
	exit, s := r.outcome.Exit(), r.saved.Load()
	if s == nil {
		if !exit.Ends() || !exit.Unfinished() {
			return nil
		}
		return &lua.JobState{JID: r.JID()} // it may have been dropped before a start that would have read its state
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	state := s.state
	state.Fields = slices.Clone(state.Fields)
	if exit.KeepsState() {
		state.Keep = lua.KeepState + r.outcome.After()
		if len(state.Fields) == 0 && (!s.exists || r.outcome.After() == 0) {
			return nil
		}
		state.Keep = max(state.Keep, s.keep)
		return &state
	}
	state.Keep = s.keep
	switch {
	case s.keep > 0:
	case s.exists:
		state.Fields = nil
	default:
		return nil
	}
	return &state
}

// ends reports whether the job is tracked and ends.
func (s *Saved) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep > 0
}

// size returns the number of bytes of the fields that a settle may carry.
func (s *Saved) size() (bytes int) {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.state.Fields {
		bytes += len(text)
	}
	return bytes
}
