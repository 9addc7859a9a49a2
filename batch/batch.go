package batch

import (
	"fmt"
	"strings"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const (
	// NothingClass is the class of the end job of a nested batch without a callback. Every worker runs it: it
	// does nothing, and its end counts in the parent.
	NothingClass = "Belay::Nothing"
	// NestedClass is the class of the job that counts in a parent whether the batch that is nested in it has
	// dead members. Every worker runs it.
	NestedClass = "Belay::Nested"
	// MaxCallback is the maximum size of a callback in bytes: it is in Redis as long as its batch.
	MaxCallback = 16 << 10
)

// Ending returns what the end of a run means for the batch of its job; nil if the job is no member, or if the
// end changes nothing. bytes is the payload with which the run began.
func Ending(bytes string, outcome job.Outcome) *lua.Member {
	as := endOf(outcome)
	if as == "" || !strings.Contains(bytes, `"`+job.FieldBatch+`"`) {
		return nil
	}
	j, err := job.Parse(bytes)
	if err != nil {
		return lua.MemberUnread(bytes, bytes, as)
	}
	return lua.MemberOf(j, as)
}

// endOf returns what the end of a run means for a member; "" for nothing. A job that is discarded because of an
// error has died, though it is not kept.
func endOf(outcome job.Outcome) lua.MemberEnd {
	_, failed := outcome.Counts()
	switch outcome.Exit() {
	case job.ExitDone:
		return lua.MemberDone
	case job.ExitRetry:
		return lua.MemberFailed
	case job.ExitDead:
		return lua.MemberDied
	case job.ExitCancelled:
		return lua.MemberRemoved
	case job.ExitDiscarded, job.ExitExpired:
		if failed {
			return lua.MemberDied
		}
		return lua.MemberDone
	case job.ExitSnoozed, job.ExitRequeued, job.ExitWaits:
	}
	return ""
}

// Callback returns the text of a callback, from its payload: without enqueued_at and the closing brace, which
// the script adds that stores it.
func Callback(payload string) (string, error) {
	j, err := job.Parse(payload)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(j.Patch(job.Remove("enqueued_at")), "}")
	if len(text) > MaxCallback {
		return "", fmt.Errorf("its payload is %d bytes long, and a callback may have %d: pass a reference to the data instead", len(text), MaxCallback)
	}
	return text, nil
}
