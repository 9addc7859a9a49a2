package launcher

import (
	"context"
	"time"
)

// orderNothing asks the manager for nothing: that it has been taken is the answer. obey has no case for it.
const orderNothing order = -1

// Turns says whether the manager turns: whether it comes to its orders before ctx ends. While there is none, because Run
// has not registered the process yet or has returned, nothing is wrong with it, and the answer is true.
func (l *Launcher) Turns(ctx context.Context) bool {
	if l.crew.Load() == nil || l.over.Load() {
		return true
	}
	if len(l.orders) == 0 { // otherwise there is one to wait for, and no reason to fill the channel up
		select {
		case l.orders <- orderNothing:
		default:
		}
	}
	for len(l.orders) > 0 && !l.over.Load() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}
