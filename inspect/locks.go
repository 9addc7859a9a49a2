package inspect

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A UniqueLock belongs to a unique job or to a key (client.RawJob.Key): pushes that count as the same are
// refused while it is held. Its text is untrusted.
type UniqueLock struct {
	// Digest names the lock; see dedup.Digest.
	Digest string `json:"digest"`
	// JID and Class name the job that holds it. That of a Kept lock may have ended.
	JID   string `json:"jid"`
	Class string `json:"class"`
	// Started reports that a run of the job has begun. Only jobs with dedup.Rule.RescheduleOnce record it: a
	// duplicate that is refused now makes them run once more.
	Started bool `json:"started"`
	// Dirty reports that a duplicate was refused since the run began, so the job will run once more.
	Dirty bool `json:"dirty"`
	// Kept reports that the lock stays until it expires, whatever becomes of the job.
	Kept bool `json:"kept"`
	// TakenAt is when the job took the lock, and Age how long ago that was, by Redis' clock.
	TakenAt time.Time `json:"taken_at"`
	Age     Seconds   `json:"age_seconds"`
	// TTL is when the lock expires, unless it is released or renewed before.
	TTL Seconds `json:"ttl_seconds"`
	// WAL has the positions in write-ahead logs that refused duplicates left for the job, by connection.
	WAL map[string]string `json:"dedup_wal_locations,omitempty"`
}

// LockCount returns how many locks are held.
func (i *Inspector) LockCount(ctx context.Context) (int64, error) {
	now, err := i.Now(ctx)
	if err != nil {
		return 0, err
	}
	reply := i.driver.Do(ctx, driver.Command("ZCOUNT", i.keys.Unique(), "("+millisOf(now), "+inf"))[0]
	if reply.Err != nil {
		return 0, fmt.Errorf("count locks: %w", reply.Err)
	}
	count, _ := reply.Value.(int64)
	return count, nil
}

// Locks yields the locks that are held, the first to expire first. It reads a page at a time, as the caller
// continues. Locks are taken, renewed and released meanwhile, so it may yield a lock twice or miss one. It
// yields an error once, and then ends.
func (i *Inspector) Locks(ctx context.Context) iter.Seq2[UniqueLock, error] {
	return func(yield func(UniqueLock, error) bool) {
		now, err := i.Now(ctx)
		if err != nil {
			yield(UniqueLock{}, fmt.Errorf("read locks: %w", err))
			return
		}
		yieldPages(ctx, i, "locks", i.keys.Unique(), lua.Cursor{From: millisOf(now), To: "+inf"}, i.locks, yield)
	}
}

// locks reads the locks of a page of the index; it skips those that are no longer held.
func (i *Inspector) locks(ctx context.Context, page []lua.Entry) ([]UniqueLock, error) {
	calls := []driver.Call{lua.AskTime}
	for _, entry := range page {
		key := i.keys.Lock(entry.Bytes)
		calls = append(calls, driver.Command("GET", key), driver.Command("PTTL", key))
	}
	var r reading
	replies := i.do(ctx, calls)
	now, replies := r.time(replies[0]), replies[1:]
	locks := make([]UniqueLock, 0, len(page))
	for n, entry := range page {
		value, _ := r.value("the lock "+entry.Bytes, replies[2*n]).(string)
		left, _ := r.value("the TTL of "+entry.Bytes, replies[2*n+1]).(int64)
		if value == "" {
			continue
		}
		lock := lockOf(entry.Bytes, value, now)
		lock.TTL = Seconds{time.Duration(max(left, 0)) * time.Millisecond}
		locks = append(locks, lock)
	}
	return locks, r.err
}

// lockOf reads a lock's value. A value that cannot be read is still a lock: its digest can be released.
func lockOf(digest, value string, now time.Time) UniqueLock {
	lock := UniqueLock{Digest: digest}
	if holder, ok := lua.HolderOf(value); ok {
		lock.JID, lock.Class, lock.Started, lock.Dirty, lock.Kept = holder.JID, holder.Class, holder.Started, holder.Dirty, holder.Kept
		lock.TakenAt, lock.Age = writable(holder.Since), Seconds{max(now.Sub(holder.Since), 0)}
		lock.WAL = dedup.WALOfLines(holder.Left).Texts()
	}
	return lock
}

// LockOf returns the lock that a job of this class, queue and args (a JSON array) would need if it were pushed
// now with this rule, and whether another job holds it. If it is free, the Lock has only its Digest.
func (i *Inspector) LockOf(ctx context.Context, rule dedup.Rule, class, queue, args string) (lock UniqueLock, held bool, err error) {
	wanted, err := rule.Lock(job.Draft{JID: job.NewJID(), Class: class, Queue: queue, ArgsJSON: args})
	if err != nil {
		return lock, false, err
	}
	return i.lockWith(ctx, wanted.Digest)
}

// LockOfKey returns the lock of a key (client.RawJob.Key), and whether a job holds it. If it is free, the
// Lock has only its Digest.
func (i *Inspector) LockOfKey(ctx context.Context, key string) (lock UniqueLock, held bool, err error) {
	digest, err := dedup.KeyDigest(key)
	if err != nil {
		return lock, false, err
	}
	return i.lockWith(ctx, digest)
}

// lockWith returns the lock with this digest, and whether it is held.
func (i *Inspector) lockWith(ctx context.Context, digest string) (lock UniqueLock, held bool, err error) {
	locks, err := i.locks(ctx, []lua.Entry{{Bytes: digest}})
	if err != nil || len(locks) == 0 {
		return UniqueLock{Digest: digest}, false, err
	}
	return locks[0], true, nil
}

// ReleaseLock releases a lock regardless of its holder and returns it as it was (without TTL, and without JID
// if the key held something else); ok reports whether it was held. The holder is not affected, and a
// duplicate may be pushed and run beside it. If the lock was Dirty, the extra run does not take place.
func (i *Inspector) ReleaseLock(ctx context.Context, digest string) (lock UniqueLock, ok bool, err error) {
	now, err := i.Now(ctx)
	if err != nil {
		return lock, false, err
	}
	released, err := i.keys.Release(digest).Do(ctx, i.driver)
	if err != nil {
		return lock, false, fmt.Errorf("release lock %s: %w", digest, err)
	}
	return lockOf(digest, released.Value, now), released.Held, nil
}

func millisOf(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
