package lua

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
)

var lapseScript = load("lapse")

const (
	// LapseUnqueued is how old an admission is when it lapses, if the queue of its job is empty: the job was
	// deleted, or another process has taken it and started it without the gate. The start of a job that was
	// taken comes within a round trip; a process that pauses for longer loses nothing: the job starts if there
	// is room, or waits first. The same goes for a job whose queue is paused.
	LapseUnqueued = 30 * time.Second
	// LapseQueued is how old an admission is when it lapses, whatever is in the queue.
	LapseQueued = 10 * time.Minute
	// ForgetLapsed is how long a lapsed admission is remembered: until then its job waits first, if it comes.
	ForgetLapsed = 24 * time.Hour
)

// An Admission is the right of a job to start that waited at a gate.
type Admission struct {
	// Hash is the SHA-1 of the job's bytes.
	Hash string
	// Since is when it was made, by Redis' clock.
	Since time.Time
	// Lapsed is set if it counts no more.
	Lapsed bool
	// Gate is the name of its gate, and Queue where the job went.
	Gate, Queue string

	text string
}

// ParseAdmission reads a field of Keys.Admitted: milliseconds, which are negative if it has lapsed, gate and
// queue, each on a line.
func ParseAdmission(hash, text string) (a Admission, ok bool) {
	parts := strings.SplitN(text, "\n", 3)
	if len(parts) != 3 {
		return a, false
	}
	ms, err := strconv.ParseInt(parts[0], 10, 64)
	a = Admission{Hash: hash, Since: time.UnixMilli(max(ms, -ms)).UTC(), Lapsed: ms < 0, Gate: parts[1], Queue: parts[2], text: text}
	return a, err == nil
}

// Admissions reads random admissions, at most MaxItems; all of them if there are no more.
func (k Keys) Admissions() Ask[[]Admission] {
	return Ask[[]Admission]{Call: driver.Command("HRANDFIELD", k.Admitted(), strconv.Itoa(MaxItems), "WITHVALUES"),
		read: func(r reader) (admissions []Admission, err error) {
			for r.more() {
				hash, text := r.text(), r.text()
				if a, ok := ParseAdmission(hash, text); ok {
					admissions = append(admissions, a)
				}
			}
			return admissions, r.end()
		}}
}

// Lapse lets those of these admissions lapse that are old enough, or whose limit is gone, and have not changed
// since they were read, and forgets those that lapsed long ago. It returns how many of them lapsed. The gates
// of these are due at once.
func (k Keys) Lapse(admissions []Admission) Ask[int] {
	keys := []string{k.Gates(), k.Admitted(), k.Waiting(), k.Limits(), k.Paused()}
	args := []string{millis(LapseUnqueued), millis(LapseQueued), millis(ForgetLapsed)}
	for _, a := range admissions {
		list := k.Queue(a.Queue)
		at := slices.Index(keys, list)
		if at < 0 {
			at, keys = len(keys), append(keys, list)
		}
		args = append(args, a.Hash, a.text, strconv.Itoa(at+1))
	}
	return asking(lapseScript, keys, args, readNumber)
}
