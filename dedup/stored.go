package dedup

import (
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// Stored returns the lock as scripts expect it, for a job of this class, held for its TTL from now on.
func (l Lock) Stored(class string) *lua.Lock {
	return &lua.Lock{Digest: l.Digest, Owner: lua.OwnerOf(l.JID, class), Hold: l.Lifetime(0), Kept: l.Kept()}
}

// Ending returns the lock of a job that ends without a run, to be released or passed to the rerun; nil
// for a job without a lock. queue is the job's, and now is Redis' time.
func (l Lock) Ending(j *job.Job, queue string, now time.Time, unit job.TimeUnit) *lua.Lock {
	if l.None() {
		return nil
	}
	held := l.Stored(j.Class())
	if l.Rerun {
		held.Next = Rerun(j, job.NewJID(), queue, now, unit)
	}
	return held
}

// AfterCrash returns what a crash of its process means for a job's lock: it is prolonged while the job lives
// on, and ends when the job dies. queue is the job's, home is where the job goes, and now is Redis' time.
func AfterCrash(j *job.Job, queue string, home lua.Home, now time.Time, unit job.TimeUnit) *lua.Lock {
	lock, err := Read(j)
	if err != nil {
		return nil
	}
	lock.Rerun = lock.Rerun && home == lua.HomeDead
	return lock.Ending(j, queue, now, unit)
}

// TooLarge returns how an entry above limit goes to the dead set: with its reason, and without its lock. If
// the job should run once more for a refused duplicate, that run is dropped, because it would be as large.
func TooLarge(entry lua.Large, key, queue string, limit int, now time.Time, unit job.TimeUnit) lua.TooLarge {
	large := lua.NewTooLarge(entry, key, queue, limit, now, unit)
	parsed, lock := ReadEnds(entry.Head, entry.Tail)
	if parsed == nil {
		return large
	}
	large.JID, large.Class = parsed.JID(), parsed.Class()
	if !lock.None() {
		large.Lock = lock.Stored(parsed.Class())
	}
	return large
}
