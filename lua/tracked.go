package lua

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// Fields of a job's state that tracked jobs have.
const (
	FieldState    = "belay_state"       // a TrackState
	FieldProgress = "belay_progress"    // "DONE/TOTAL"
	FieldResult   = "belay_result"      // JSON
	FieldNoResult = "belay_no_result"   // why a job that is done has no result
	FieldEndedAt  = "belay_ended_at_ms" // by Redis' clock
	FieldJob      = "belay_job"         // the payload of a job that is in no other place
	// FieldBeganAt is when the last run began, of a job whose end was that of a run.
	FieldBeganAt = "belay_began_at_ms"
	// fieldCompleted has the jid, and makes the script that writes it list the job among the Completed.
	fieldCompleted = "belay_completed"
	// The class and the message of the error of the last run that failed.
	FieldErrorClass   = "belay_error_class"
	FieldErrorMessage = "belay_error_message"
)

// MaxTrackedError is the maximum size of an error message in a job's state, in bytes. The payload of a failed
// job has more of it, while there is one.
const MaxTrackedError = 1 << 10

// MaxResult is the maximum size of a result in bytes.
const MaxResult = 64 << 10

// MaxCompleted is how many of the tracked jobs that ended last are listed. Further ones are found by their jid
// only, as long as their state is kept.
const MaxCompleted = 10_000

// A TrackState is the state of a tracked job, as its last run reported it.
type TrackState string

// The states. Their names are a contract. The last five are ends.
const (
	// TrackWaiting: no worker has reported the job. It waits, has begun just now, or does not exist.
	TrackWaiting TrackState = "waiting"
	// TrackRunning: a worker runs the job, or has crashed while it ran it.
	TrackRunning TrackState = "running"
	// TrackRetrying: its last run failed, and it runs again.
	TrackRetrying TrackState = "retrying"
	TrackDone     TrackState = "done"
	TrackDead     TrackState = "dead"
	// TrackDiscarded: its last run failed, and it was not kept.
	TrackDiscarded TrackState = "discarded"
	// TrackCancelled: it was cancelled, or deleted by an operator.
	TrackCancelled TrackState = "cancelled"
	TrackExpired   TrackState = "expired"
)

// Ended reports whether the job will not run again, unless an operator retries it.
func (s TrackState) Ended() bool {
	return slices.Contains([]TrackState{TrackDone, TrackDead, TrackDiscarded, TrackCancelled, TrackExpired}, s)
}

// Tracked is what is known about a tracked job.
type Tracked struct {
	JID   string     `json:"jid"`
	State TrackState `json:"state"`
	// Done and Total are its last reported progress; 0 if it has reported none.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// Result is the JSON of the result of a job that is done. Default: none. NoResult says why a result that
	// the handler gave could not be kept.
	Result   json.RawMessage `json:"result,omitempty"`
	NoResult string          `json:"no_result,omitempty"`
	// EndedAt is when it ended, by Redis' clock; zero before. BeganAt is when the run began that ended it; zero
	// if no run did.
	EndedAt time.Time `json:"ended_at,omitzero"`
	BeganAt time.Time `json:"began_at,omitzero"`
	// ErrorClass and ErrorMessage describe the error of its last run that failed, also while it waits for a
	// retry or runs again. They are empty if none failed, and once the job is done. The message is cut to
	// MaxTrackedError.
	ErrorClass   string `json:"error_class,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"`
}

var trackedFields = []string{FieldState, FieldProgress, FieldResult, FieldNoResult, FieldEndedAt, FieldErrorClass, FieldErrorMessage, FieldBeganAt}

// EndedState returns the state that the end of a tracked job leaves; nil if the job is not tracked. A dead job
// keeps its cursor, because an operator may revive it, and the error in its payload is that of the state.
func EndedState(j *job.Job, as TrackState, at time.Time) *JobState {
	retention, tracked := j.Track()
	if !tracked {
		return nil
	}
	s := StateOf(j)
	s.Keep = retention
	s.Fields = []string{FieldState, string(as), FieldEndedAt, strconv.FormatInt(at.UnixMilli(), 10), FieldResult, "", FieldNoResult, "", FieldBeganAt, ""}
	if as == TrackDead {
		s.Keep = max(retention, KeepState)
		if class, _ := j.Text("error_class"); class != "" {
			message, _ := j.Text("error_message")
			s.Fields = append(s.Fields, ErrorFields(class, message)...)
		}
	} else {
		s.Fields = append(s.Fields, FieldJob, j.Raw(), fieldCompleted, j.JID(), FieldCursor, "", FieldCrashes, "")
	}
	return &s
}

// DiedState is EndedState of a job that dies with this payload, which has the reason.
func DiedState(payload string, at time.Time) *JobState {
	j, err := job.Parse(payload)
	if err != nil {
		return nil // never: it was patched from a payload that could be read
	}
	return EndedState(j, TrackDead, at)
}

// ErrorFields returns the fields of a state that describe an error. The message is cut to MaxTrackedError,
// between two characters.
func ErrorFields(class, message string) []string {
	message = strings.ToValidUTF8(message[:min(len(message), MaxTrackedError)], "")
	return []string{FieldErrorClass, class, FieldErrorMessage, message}
}

// trackField is the retention of a tracked job, which Belay writes before the args.
var trackField = regexp.MustCompile(`"` + job.FieldTrack + `":[0-9]{1,18},`)

// DeadUnread returns the state of a job that dies without being parsed, with the class and the message of the
// reason. It reads only the first and last bytes of the payload, and returns nil if they do not show that the
// job is tracked. The order of the fields must be Belay's own, and the text after the args must be valid up to
// the closing brace. So the text of an argument never names another job.
func DeadUnread(head, tail, class, message string, at time.Time) *JobState {
	head, tail = head[:min(len(head), ends)], tail[max(len(tail)-ends, 0):]
	track, behind := trackField.FindString(job.OwnHead(head)), strings.LastIndex(tail, `],"class":`)
	if track == "" || behind < 0 {
		return nil
	}
	j, err := job.Parse("{" + track + `"args":[` + tail[behind:])
	if err == nil {
		j, err = job.Parse(j.Patch(job.SetString("error_class", class), job.SetString("error_message", message)))
	}
	if err != nil {
		return nil
	}
	return EndedState(j, TrackDead, at)
}

// RevivedState returns the state of a tracked job that had ended and will run again; nil if the job is not
// tracked.
func RevivedState(j *job.Job) *JobState {
	if _, tracked := j.Track(); !tracked {
		return nil
	}
	s := StateOf(j)
	s.Keep, s.Fields = KeepState, []string{FieldState, string(TrackWaiting), FieldEndedAt, ""}
	return &s
}

// ReadTracked reads what is known about a job. Its State is TrackWaiting if nothing is.
func (k Keys) ReadTracked(jid string) Ask[Tracked] {
	call := driver.Command(slices.Concat([]string{"HMGET", k.Iteration(jid)}, trackedFields)...)
	return Ask[Tracked]{Call: call, read: func(r reader) (Tracked, error) {
		tracked := r.tracked(jid)
		return tracked, r.end()
	}}
}

// A TrackedJob is what is known about a job, and its payload if that is kept in no other place.
type TrackedJob struct {
	Tracked
	Payload string
}

// ReadTrackedJob is ReadTracked with the payload.
func (k Keys) ReadTrackedJob(jid string) Ask[TrackedJob] {
	call := driver.Command(slices.Concat([]string{"HMGET", k.Iteration(jid)}, trackedFields, []string{FieldJob})...)
	return Ask[TrackedJob]{Call: call, read: func(r reader) (TrackedJob, error) {
		read := TrackedJob{r.tracked(jid), r.textOrNil()}
		return read, r.end()
	}}
}

// tracked reads the values of trackedFields.
func (r *reader) tracked(jid string) Tracked {
	t := Tracked{JID: jid, State: TrackState(cmp.Or(r.textOrNil(), string(TrackWaiting)))}
	done, total, _ := strings.Cut(r.textOrNil(), "/")
	t.Done, _ = strconv.ParseInt(done, 10, 64)
	t.Total, _ = strconv.ParseInt(total, 10, 64)
	if result := r.textOrNil(); json.Valid([]byte(result)) {
		t.Result = json.RawMessage(result)
	}
	t.NoResult = r.textOrNil()
	t.EndedAt = r.milliseconds()
	class, message := r.textOrNil(), r.textOrNil()
	t.BeganAt = r.milliseconds()
	if t.State != TrackDone { // the error of an earlier run says nothing about a job that is done
		t.ErrorClass, t.ErrorMessage = class, message
	}
	return t
}

// milliseconds reads an instant; the zero time for what is none.
func (r *reader) milliseconds() (at time.Time) {
	if ms, err := strconv.ParseInt(r.textOrNil(), 10, 64); err == nil && ms > 0 {
		at = time.UnixMilli(ms).UTC()
	}
	return at
}

// AnnounceEnded tells the callers that wait for these jobs that they have ended. It is a hint: the state of
// the jobs is what counts.
func (k Keys) AnnounceEnded(jids []string) driver.Call {
	call := driver.Command("PUBLISH", k.Ended(), strings.Join(jids, "\n"))
	call.Announces = true // the script that ends the jobs may run after it
	return call
}

// EndedOf returns the jids in a message on the channel Ended.
func EndedOf(message string) []string { return strings.Split(message, "\n") }
