package lua

import (
	"iter"
	"strconv"
)

// Owned is what belongs to a job, and is taken, moved or released in the script that moves the job. A field is
// nil if the job has no such thing, or if the step does not change it.
type Owned struct {
	Lock  *Lock
	State *JobState
	// Member is what becomes of a member of a batch.
	Member *Member
	// Next are the jobs to store.
	Next *NextJobs
	// Waits is set if the job leaves a gate's waiting list.
	Waits *Waits

	slot *slot
}

// A belonging is one field of Owned, as scripts get it: see owned.lua.
type belonging interface {
	// part returns its name, which says what becomes of it, and what else jobs of one group have in common.
	// fate is what becomes of a lock.
	part(fate lockFate) part
	// keys are those that a group of jobs has once, and key is that of the job; "" for none.
	keys(k Keys) []string
	key(k Keys) string
	// appendTo adds its arguments, and the keys that these point to.
	appendTo(k Keys, keys, args []string) ([]string, []string)
}

// A part has the common properties of the belongings of one kind in a group.
type part struct {
	name  string
	width int    // how many arguments each job has
	of    string // a text that all jobs have in common
}

// An ownedKind has the common properties of the jobs of one group of a script's arguments.
type ownedKind [6]part

// belongings are the fields that are set, each at the place of its kind.
func (o *Owned) belongings() (all [len(ownedKind{})]belonging) {
	if o.Lock != nil {
		all[0] = o.Lock
	}
	if o.State != nil {
		all[1] = o.State
	}
	if o.Member != nil {
		all[2] = o.Member
	}
	if o.Next != nil {
		all[3] = o.Next
	}
	if o.slot != nil {
		all[4] = o.slot
	}
	if o.Waits != nil {
		all[5] = o.Waits
	}
	return all
}

func (o *Owned) kind(fate lockFate) (kind ownedKind) {
	if *o == (Owned{}) { // most jobs
		return kind
	}
	for at, b := range o.belongings() {
		if b != nil {
			kind[at] = b.part(fate)
		}
	}
	return kind
}

// Size returns how many bytes of jobs and states a script carries for what belongs to the job.
func (o *Owned) Size() (bytes int) {
	if o.Lock != nil && o.Lock.Next != nil {
		bytes += len(o.Lock.Next.Bytes)
	}
	if o.State != nil {
		for _, text := range o.State.Fields {
			bytes += len(text)
		}
	}
	if o.Next != nil {
		for _, next := range *o.Next {
			bytes += len(next.Bytes)
		}
	}
	return bytes
}

// appendOwned adds a group of jobs of one ownedKind to the arguments that read_owned reads. own adds the
// script's own arguments of a job.
func appendOwned[J any](
	k Keys, keys, args []string, kind ownedKind, jobs []J, ownedBy func(j *J) *Owned, own func(args []string, j *J) []string,
) ([]string, []string) {
	args = append(args, strconv.Itoa(len(jobs)))
	if kind == (ownedKind{}) {
		args = append(args, "0")
		for i := range jobs {
			args = own(args, &jobs[i])
		}
		return keys, args
	}
	count := len(args)
	args = append(args, "")
	for at, b := range ownedBy(&jobs[0]).belongings() {
		if b == nil {
			continue
		}
		args = append(args, kind[at].name, strconv.Itoa(len(keys)+1), strconv.Itoa(kind[at].width), kind[at].of)
		keys = append(keys, b.keys(k)...)
		for i := range jobs {
			if key := ownedBy(&jobs[i]).belongings()[at].key(k); key != "" {
				keys = append(keys, key)
			}
		}
	}
	args[count] = strconv.Itoa((len(args) - count) / 4)
	for i := range jobs {
		args = own(args, &jobs[i])
		for _, b := range ownedBy(&jobs[i]).belongings() {
			if b != nil {
				keys, args = b.appendTo(k, keys, args)
			}
		}
	}
	return keys, args
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

// A Next is a job that the end of another one decides, and that is stored in the same step.
type Next struct {
	// Owner is that of the lock that passes to it; "" for none.
	Owner, Bytes string
	// Queue is where it goes, at the back.
	Queue string
}

// NextJobs are the jobs that follow one that is done, in their order.
type NextJobs []Next

func (n *NextJobs) part(lockFate) part { return part{name: "next", width: 3 * len(*n)} }

func (n *NextJobs) keys(k Keys) []string { return []string{k.Queues()} }

func (n *NextJobs) key(Keys) string { return "" }

func (n *NextJobs) appendTo(k Keys, keys, args []string) ([]string, []string) {
	for _, next := range *n {
		keys = append(keys, k.Queue(next.Queue))
		args = append(args, next.Bytes, strconv.Itoa(len(keys)), next.Queue)
	}
	return keys, args
}
