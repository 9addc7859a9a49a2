package lua

import "time"

var acquireScript = load("acquire")

// HoldLease is how long a slot without a job is held after it was taken or renewed. Its holder renews it three
// times as often.
const HoldLease = 30 * time.Second

// Acquired is the result of an Acquire.
type Acquired struct {
	// Held reports that the holder has a slot, and has used a permit of a rate.
	Held bool
	// Shut is for how long a rate or a stop lets nothing start, whatever ends; 0 if it has a slot, or if only
	// other runs are in its way.
	Shut time.Duration
}

// Acquire takes a slot of a gate for a holder that is no job, for HoldLease, if there is room and no job waits.
// holder is unique to the caller, without a line feed. The same call again changes nothing but the time.
func (k Keys) Acquire(gate Gate, holder string) Ask[Acquired] {
	return acquire(k, "take", gate, holder, func(word string, shut time.Duration) Acquired {
		return Acquired{Held: word == "held", Shut: shut}
	})
}

// RenewLease holds a slot for another HoldLease. It returns false if the holder has lost it.
func (k Keys) RenewLease(gate Gate, holder string) Ask[bool] {
	return acquire(k, "renew", gate, holder, func(word string, _ time.Duration) bool { return word == "held" })
}

// ReleaseLease frees a slot. It returns false if the holder had lost it. The poller admits waiters for it.
func (k Keys) ReleaseLease(gate Gate, holder string) Ask[bool] {
	return acquire(k, "free", gate, holder, func(word string, _ time.Duration) bool { return word == "free" })
}

func acquire[T any](k Keys, act string, gate Gate, holder string, of func(word string, shut time.Duration) T) Ask[T] {
	// The second key stands for a ledger of slots, which a lease is not in.
	keys := append([]string{k.Gates(), k.Admitted(), k.Admitted(), k.Waiting(), k.Limits()}, gate.keysOf(k)...)
	args := []string{act, gate.Name, gate.Size.String(), holder, millis(HoldLease)}
	return asking(acquireScript, append(keys, k.Leases()), args, func(r reader) (T, error) {
		return of(r.text(), time.Duration(r.number())*time.Millisecond), r.end()
	})
}
