package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

var saveScript = load("save")

// KeepState is how long the state of a job is kept after it was written last, as in Sidekiq.
const KeepState = 30 * 24 * time.Hour

// Fields of a job's state.
const (
	// FieldCursor is Sidekiq's: the cursor as JSON.
	FieldCursor = "c"
	// FieldCrashes is the job's interrupted_count when the cursor last advanced.
	FieldCrashes = "belay_crashes"

	fieldVersion = "belay_version"
	fieldCreated = "belay_created"
)

// A JobState is what a run writes into the state of its job, a hash that Sidekiq has for iterable jobs.
type JobState struct {
	JID string
	// Created is the text of the job's created_at, which distinguishes jobs with the same jid.
	Created string
	// Version orders the writes: it is higher than that of any earlier write that the run knows of.
	Version int64
	// Keep is how long the state is kept. At the end of a run, 0 deletes it.
	Keep time.Duration
	// Fields are names and values in turn. An empty value removes the field.
	Fields []string
}

func (s *JobState) part(lockFate) part { return part{name: "state", width: 3 + len(s.Fields)} }

func (s *JobState) keys(k Keys) []string { return []string{k.Completed()} }

func (s *JobState) key(k Keys) string { return k.Iteration(s.JID) }

func (s *JobState) appendTo(_ Keys, keys, args []string) ([]string, []string) {
	args = append(args, s.Created, strconv.FormatInt(s.Version, 10), wholeSeconds(s.Keep))
	return keys, append(args, s.Fields...)
}

// StateOf returns the state of a job, without fields.
func StateOf(j *job.Job) JobState {
	created, _ := j.Field("created_at")
	return JobState{JID: j.JID(), Created: created}
}

// SaveWord is the result of a save.
type SaveWord string

// The results of a save.
const (
	SaveSaved     SaveWord = "saved"
	SaveLost      SaveWord = "lost"      // the process does not have the job any more
	SaveStale     SaveWord = "stale"     // a later write came first
	SaveCancelled SaveWord = "cancelled" // saved, and a Ruby program has cancelled the job
)

// Save writes fields of the state of the job with these bytes, which a process took from this queue, or from
// its quarantine.
func (k Keys) Save(identity, queue, bytes string, quarantined bool, s JobState) Ask[SaveWord] {
	hand, _ := k.lists(origin{queue, quarantined}, identity)
	args := append([]string{bytes, strconv.FormatInt(s.Version, 10), s.Created, wholeSeconds(s.Keep)}, s.Fields...)
	return asking(saveScript, []string{hand, k.Iteration(s.JID)}, args, func(r reader) (SaveWord, error) {
		return SaveWord(r.text()), r.end()
	})
}

// A StateRead has the version of a job's state, 0 for none, and the requested fields, "" for a missing one.
type StateRead struct {
	Version int64
	Fields  []string
}

// ReadState reads fields of the state of a job. State of an earlier job with the same jid is not read.
func (k Keys) ReadState(s JobState, fields ...string) Ask[StateRead] {
	call := driver.Command(append([]string{"HMGET", k.Iteration(s.JID), fieldVersion, fieldCreated}, fields...)...)
	return Ask[StateRead]{Call: call, read: func(r reader) (state StateRead, err error) {
		version, created := r.textOrNil(), r.textOrNil()
		state.Fields = make([]string, len(fields))
		for i := range fields {
			state.Fields[i] = r.textOrNil()
		}
		state.Version, _ = strconv.ParseInt(version, 10, 64)
		if created != s.Created && (version != "" || created != "") {
			state = StateRead{Fields: make([]string, len(fields))}
		}
		return state, r.end()
	}}
}
