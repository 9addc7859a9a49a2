package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An administrator sets Redis' clock an hour ahead, and back, and back again, and ahead again, while ten long
// jobs run and others come and go. All workers have default settings. Their own clocks are not touched, and
// hardly matter: leases and looks go by a clock that cannot be set, and a worker's wall clock appears only in
// bytes that people read.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	clock := startClocked(t)
	long := newSteadfast(t, clock)
	var routines []*routine
	for _, client := range []string{"go-redis", "rueidis"} {
		routines = append(routines, newRoutine(t, clock, client))
	}
	each := func(do func(e *routine)) {
		for _, e := range routines {
			do(e)
		}
	}

	widow := newBereaved(t, clock, "go-redis")
	each(func(e *routine) { e.inHalfAnHour = e.later("30m") })
	stepped := clock.set(time.Hour)
	widow.kill()
	each(func(e *routine) { e.book.awaitStart(e.inHalfAnHour, 1) })
	each((*routine).onTime)
	widow.recovered()
	long.undisturbed(stepped)

	successor, second := newBereaved(t, clock, "rueidis"), newBereaved(t, clock, "rueidis")
	successor.kill()
	stepped = clock.set(-time.Hour)
	second.kill()
	successor.inherited()
	each((*routine).waitsEnd)
	each((*routine).onTime)
	successor.recovered()
	second.recovered()
	long.undisturbed(stepped)

	each(func(e *routine) { e.soon = e.later("10s") }) // not before the clock is set, however long the pushes take
	stepped = clock.set(-time.Hour)
	each(func(e *routine) { e.failing = e.failsTwice() })
	each((*routine).waitsEnd)
	each((*routine).onTime)
	long.undisturbed(stepped)
	each(func(e *routine) {
		require.Empty(t, e.book.starts(e.soon), "started an hour early")
		require.Len(t, e.book.starts(e.failing), 1, "retried before its time")
	})

	stepped = clock.set(time.Hour)
	each(func(e *routine) {
		e.book.awaitStart(e.soon, 1)
		e.book.awaitStart(e.failing, 2)
	})
	each((*routine).onTime)
	long.undisturbed(stepped)
	long.settled()
	each((*routine).settled)
	for _, b := range []*bereaved{widow, successor, second} {
		b.settled()
	}
}
