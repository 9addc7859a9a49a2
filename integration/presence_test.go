package integration

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// takesItsTime reports whether the tests of presence take their time and judge the promised seconds, which needs a
// machine that does nothing else.
func takesItsTime() bool { return os.Getenv("BELAY_LONG") == "1" }

// absentDeath is what the watcher's log says.
const absentDeath = "process declared dead: its subscription is gone and no heartbeat came"

// declaredAbsent reports whether one of these workers has declared a process dead by its absence.
func declaredAbsent(workers []*process, identity string) bool {
	for _, p := range workers {
		for line := range strings.Lines(p.log()) {
			if strings.Contains(line, absentDeath) && strings.Contains(line, identity) {
				return true
			}
		}
	}
	return false
}

// now is Redis' time.
func (s *site) now() time.Time {
	s.t.Helper()
	parts := texts(s.do("TIME"))
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	require.NoError(s.t, err)
	micros, err := strconv.ParseInt(parts[1], 10, 64)
	require.NoError(s.t, err)
	return time.Unix(seconds, micros*1000)
}

// diedAt returns when a process was declared dead, by Redis' clock; ok is false if it was not.
func (s *site) diedAt(identity string) (at time.Time, ok bool) {
	s.t.Helper()
	text, ok := s.do("ZSCORE", s.keys.Tombstones(), identity).(string)
	millis, _ := strconv.ParseFloat(text, 64)
	return time.UnixMilli(int64(millis)), ok
}

// present reports whether a process has its subscription.
func (s *site) present(identity string) bool {
	s.t.Helper()
	counts, _ := s.do("PUBSUB", "NUMSUB", s.keys.Presence(identity)).([]any)
	return len(counts) == 2 && counts[1] == int64(1)
}

// awaitPresent waits until all these workers have their subscriptions, there is a watcher and a deputy, and
// both have looked for long enough to judge.
func (s *site) awaitPresent(workers ...*process) {
	s.t.Helper()
	for _, p := range workers {
		eventually(s.t, "its subscription", func() bool { names := p.identities(); return s.present(names[len(names)-1]) })
	}
	eventually(s.t, "a watcher and a deputy", func() bool {
		return s.text(s.keys.Watcher()) != "" && s.text(s.keys.Deputy()) != ""
	})
	time.Sleep(4 * time.Second) // what a sight must have seen is not shown anywhere
}

// A kill -9 is found by the missing subscription, long before the session lapses. In the long mode each of a
// hundred jobs of killed workers is recovered within three seconds.
func TestAKilledWorkerIsFoundByItsAbsence(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t), newLedger(t)
	kills, most := 5, 20
	if takesItsTime() {
		kills, most = 100, 100
	}
	var fleet []*process
	for range 3 {
		fleet = append(fleet, s.work("-c", "100", "-q", "default", "--exec", book.exec("HardWorker")))
	}
	s.awaitPresent(fleet...)
	found, worst := 0, time.Duration(0)
	for n := 0; n < most && found < kills; n++ {
		queue := "q" + strconv.Itoa(n)
		victim := s.work("-q", queue, "--exec", book.exec("HardWorker"))
		identity := victim.identities()[0]
		jid := s.push("HardWorker", queue, jsonArgs(1, 60_000))
		book.awaitStart(jid, 1)
		eventually(t, "its subscription", func() bool { return s.present(identity) })
		time.Sleep(1500 * time.Millisecond) // a look
		killedAt := s.now()
		victim.kill()
		var diedAt time.Time
		eventually(t, "the verdict", func() (dead bool) { diedAt, dead = s.diedAt(identity); return dead })
		eventually(t, "the recovery", func() bool { return len(s.list(s.keys.Queue(queue))) == 1 })
		took := diedAt.Sub(killedAt)
		byAbsence := declaredAbsent(fleet, identity)
		t.Logf("kill %d: dead after %v, by absence: %v", n, took, byAbsence)
		if byAbsence {
			found++
			worst = max(worst, took)
		}
	}
	t.Logf("%d found by their absence, the last after %v", found, worst)
	require.GreaterOrEqual(t, found, kills)
	if takesItsTime() {
		require.LessOrEqual(t, worst, 3*time.Second)
	}
}
