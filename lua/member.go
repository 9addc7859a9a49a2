package lua

import (
	"regexp"

	"github.com/belayq/belay/job"
)

// A MemberEnd is what becomes of a member of a batch, as scripts name it.
type MemberEnd string

// What may become of a member.
const (
	MemberDone    MemberEnd = "done"
	MemberFailed  MemberEnd = "failed"  // it runs again
	MemberDied    MemberEnd = "died"    // it runs again only if an operator retries it
	MemberRemoved MemberEnd = "removed" // it was cancelled, deleted or dropped
	MemberRevived MemberEnd = "revived" // an operator retries it from the dead set
)

// A Member is a job of a batch, and what becomes of it.
type Member struct {
	Batch Batch
	JID   string
	As    MemberEnd
}

func (m *Member) part(lockFate) part { return part{name: string(m.As), width: 1, of: m.Batch.String()} }

func (m *Member) keys(k Keys) []string { return m.Batch.keysOf(k) }

func (m *Member) key(Keys) string { return "" }

func (m *Member) appendTo(_ Keys, keys, args []string) ([]string, []string) {
	return keys, append(args, m.JID)
}

// MemberOf returns what becomes of a job as a member; nil if it is in no batch.
func MemberOf(j *job.Job, as MemberEnd) *Member {
	b, ok := BatchIn(j, job.FieldBatch)
	if !ok {
		return nil
	}
	return &Member{Batch: b, JID: j.JID(), As: as}
}

// BatchOf returns the batch of which a job is a member or a callback; ok is false for most jobs.
func BatchOf(j *job.Job) (b Batch, ok bool) {
	if b, ok = BatchIn(j, job.FieldBatchEnded); !ok {
		b, ok = BatchIn(j, job.FieldBatch)
	}
	return b, ok
}

// BatchIn returns the batch that a field of a job names: job.FieldBatch or job.FieldBatchEnded. ok is false for
// a job without the field, or if another program has written something else there.
func BatchIn(j *job.Job, field string) (Batch, bool) {
	text, ok := j.Text(field)
	if !ok {
		return Batch{}, false
	}
	b, err := ParseBatch(text)
	return b, err == nil
}

var (
	// Belay writes the field before the args, and the jid right behind the class, which comes after them.
	batchInHead = regexp.MustCompile(`"` + job.FieldBatch + `":"([^"\\]{3,400})"`)
	jidInTail   = regexp.MustCompile(`"class":"[^"\\]{1,255}","jid":"([^"\\]{1,255})"`)
)

// MemberUnread is MemberOf a job that is not parsed, of which the beginning and the end are known; nil if they
// do not show a batch. A wrong guess changes nothing: a batch counts only the jids of its pending members.
func MemberUnread(head, tail string, as MemberEnd) *Member {
	field, jids := batchInHead.FindStringSubmatch(job.OwnHead(head[:min(len(head), ends)])), jidInTail.FindAllStringSubmatch(tail[max(len(tail)-ends, 0):], -1)
	if field == nil || jids == nil {
		return nil
	}
	b, err := ParseBatch(field[1])
	if err != nil {
		return nil
	}
	return &Member{Batch: b, JID: jids[len(jids)-1][1], As: as}
}
