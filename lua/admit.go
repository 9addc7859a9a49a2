package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var admitScript = load("admit")

// Admitted is the result of an Admit.
type Admitted struct {
	// Moved is how many waiters went to the back of the queue.
	Moved int
	// Next, if not empty, is the queue of the next waiter, which may leave too, but not with this call: it is
	// another queue.
	Next string
}

// Admit moves waiters of a gate to the back of a queue, at most MaxItems, as long as the gate has room and the
// next waiter is of that queue. If the queue is paused, its next waiters go there without being admitted, so
// that they do not stop the gate's waiters of other queues: they wait anew once the queue is resumed. If the
// limit does not exist any more, all waiters go. It sets when the poller looks at the gate next.
func (k Keys) Admit(gate, queue string) Ask[Admitted] {
	// The second one stands for a ledger of slots, which no admission changes.
	keys := append([]string{k.Gates(), k.Admitted(), k.Admitted(), k.Waiting(), k.Limits()}, Gate{Name: gate}.keysOf(k)...)
	keys = append(keys, k.Paused(), k.Queues(), k.Queue(queue))
	return asking(admitScript, keys, []string{gate, queue, strconv.Itoa(MaxItems)}, func(r reader) (Admitted, error) {
		return Admitted{Moved: r.number(), Next: r.text()}, r.end()
	})
}

// GatesByLook reads gates that have waiters, at most most, each as the Bytes of an Entry whose Score is the
// second at which the poller looks at it next: the earliest first, or with latest the latest first. A gate that
// is due is admitted with Heads and Admit. One that is due more than MaxLook ahead was stored before the clock
// was set back, and is due too.
func (k Keys) GatesByLook(latest bool, most int) Ask[[]Entry] {
	command := "ZRANGE"
	if latest {
		command = "ZREVRANGE"
	}
	return Ask[[]Entry]{Call: driver.Command(command, k.Waiting(), "0", strconv.Itoa(most-1), "WITHSCORES"), read: func(r reader) ([]Entry, error) {
		return r.entries(true, false), r.end()
	}}
}

// PutOffGate moves the poller's next look at a gate, if it has waiters. An end of a run at the gate, or a new
// waiter, may move it again.
func (k Keys) PutOffGate(name string, at time.Time) driver.Call {
	return driver.Command("ZADD", k.Waiting(), "XX", strconv.FormatInt(at.Unix(), 10), name)
}
