package lua

import (
	"time"

	"github.com/belayq/belay/driver"
)

var drainScript = load("drain")

// maxDrain is the longest drain of any process of the fleet, including those with other settings.
const maxDrain = 10 * time.Minute

// Drain returns whether identity may stop taking jobs, for at most hold, so that it becomes empty for a
// quarantined job of queue. A quarter of the processes that have asked within the last wish may, but at
// least one.
func (k Keys) Drain(queue, identity string, hold, wish time.Duration) Ask[bool] {
	return asking(drainScript, []string{k.Draining(queue), k.DrainAsked(queue)},
		[]string{identity, millis(hold), millis(wish), millis(maxDrain)}, wordIs("held"))
}

// Undrain ends what Drain began.
func (k Keys) Undrain(queue, identity string) driver.Call {
	return driver.Command("ZREM", k.Draining(queue), identity)
}
