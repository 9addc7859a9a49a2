package lua

import (
	"iter"
	"strconv"
)

// owned has the lock and the state of a job, which are taken, moved and released with it; both may be nil.
type owned struct {
	lock  *Lock
	state *JobState
}

// An ownedKind has the common properties of the jobs of one group of a script's arguments.
type ownedKind struct {
	locked, again, stateful bool
	fields                  int
}

func (o owned) kind() ownedKind {
	kind := ownedKind{locked: o.lock != nil, again: o.lock != nil && o.lock.Again != nil, stateful: o.state != nil}
	if kind.stateful {
		kind.fields = len(o.state.Fields) / 2
	}
	return kind
}

// appendOwned adds a group of jobs of one ownedKind to the arguments that read_owned reads. own adds the
// script's own arguments of a job.
func appendOwned[J any](
	k Keys, keys, args []string, jobs []J, ownedBy func(j *J) owned, own func(args []string, j *J) []string,
) ([]string, []string) {
	kind, locks, flags := ownedBy(&jobs[0]).kind(), 0, 0
	if kind.locked {
		locks = len(keys) + 1
		for i := range jobs {
			keys = append(keys, k.Lock(ownedBy(&jobs[i]).lock.Digest))
		}
	}
	if kind.again {
		flags++
	}
	if kind.stateful {
		flags += 2
	}
	args = append(args, strconv.Itoa(locks), strconv.Itoa(flags), strconv.Itoa(len(jobs)))
	if kind.stateful {
		args = append(args, strconv.Itoa(len(keys)+1), strconv.Itoa(kind.fields))
		for i := range jobs {
			keys = append(keys, k.Iteration(ownedBy(&jobs[i]).state.JID))
		}
		keys = append(keys, k.Completed())
	}
	for i := range jobs {
		args = own(args, &jobs[i])
		o := ownedBy(&jobs[i])
		keys, args = k.appendUnlock(keys, args, o.lock)
		if o.state != nil {
			args = append(args, o.state.Created, strconv.FormatInt(o.state.Version, 10), wholeSeconds(o.state.Keep))
			args = append(args, o.state.Fields...)
		}
	}
	return keys, args
}

// appendUnlock adds the arguments of unlock, and the key of a queue that they point to.
func (k Keys) appendUnlock(keys, args []string, lock *Lock) ([]string, []string) {
	if lock == nil {
		return keys, args
	}
	args = append(args, lock.Digest, lock.Owner, millis(lock.Hold))
	if lock.Again == nil {
		return keys, args
	}
	keys = append(keys, k.Queue(lock.Again.Queue))
	return keys, append(args, lock.Again.Owner, lock.Again.Bytes, strconv.Itoa(len(keys)), lock.Again.Queue)
}

// alike splits items into runs of neighbours with the same key.
func alike[T any, K comparable](items []T, keyOf func(item *T) K) iter.Seq2[K, []T] {
	return func(yield func(K, []T) bool) {
		for len(items) > 0 {
			key, count := keyOf(&items[0]), 1
			for count < len(items) && keyOf(&items[count]) == key {
				count++
			}
			if !yield(key, items[:count]) {
				return
			}
			items = items[count:]
		}
	}
}
