package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// A sweep is many plays on one server.
type sweep struct {
	t       *testing.T
	server  *drivertest.Server
	program string // sweepworker

	mu     sync.Mutex
	points []point // of the plays so far; a play's number is in its prefix
	met    int
	failed int
}

// play plays a play with a death at a point, to the end and beyond, and answers what the owner sent and
// received.
func (w *sweep) play(at point) (commands, replies map[string]int) {
	w.mu.Lock()
	prefix := fmt.Sprintf("sweep%05d", len(w.points))
	w.points = append(w.points, at)
	w.mu.Unlock()
	passed := w.t.Run(at.String(), func(t *testing.T) {
		server := w.server
		if at.play == newcomer {
			server = audited(t)
		}
		s := newSite(t, server)
		s.client = at.client
		s.use(prefix)
		on := newStage(t, s, w.program, at)
		defer w.count(on)
		plays[at.play](on)
		on.finish()
		commands, replies = on.death.seen()
	})
	if !passed {
		w.t.Error(again(at))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed++
	}
	return commands, replies
}

// count counts a point that was met, and shows what is left on the stage of one that failed.
func (w *sweep) count(on *stage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on.death.wasMet() {
		w.met++
	}
	if on.t.Failed() {
		on.t.Logf("%q processed, %q failed; what there is: %q", on.text(on.keys.Processed()), on.text(on.keys.Failed()), texts(on.do("KEYS", on.prefix+":*")))
	}
}

// again says how to repeat a point.
func again(at point) string {
	if at.kind == "" {
		return "it failed without a fault"
	}
	return fmt.Sprintf("to repeat it: BELAY_SWEEP='%v' go test -count=1 -run '^TestCrashPoints$' ./integration", at)
}

// together calls f with 0, 1, 2 ... until it says no, so many at a time.
func together(at int, f func(n int) bool) {
	var mu sync.Mutex
	var all sync.WaitGroup
	next := 0
	for range at {
		all.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				mu.Unlock()
				if !f(n) {
					return
				}
			}
		})
	}
	all.Wait()
}

// rehearse plays each play without a death, and answers the points that there are. What happened both times
// counts: the first time scripts are loaded, and how often one looks and beats varies.
func (w *sweep) rehearse() []point {
	var all []point
	for _, play := range slices.Sorted(maps.Keys(plays)) {
		for _, client := range []string{"go-redis", "rueidis"} {
			all = append(all, point{play: play, client: client})
		}
	}
	allCommands, allReplies := make([]map[string]int, len(all)), make([]map[string]int, len(all))
	var mu sync.Mutex
	seen := make(map[string]bool) // in either of both: on a busy machine a play goes another way now and then
	for range 2 {
		together(troupes, func(n int) bool {
			if n >= len(all) {
				return false
			}
			commands, replies := w.play(all[n])
			allCommands[n], allReplies[n] = least(allCommands[n], commands), least(allReplies[n], replies)
			mu.Lock()
			defer mu.Unlock()
			for kind := range commands {
				seen[kind] = seen[kind] || all[n].play != newcomer || kind == scriptLoad
			}
			return true
		})
	}
	var found []point
	for n, of := range all {
		if of.play == newcomer {
			allCommands[n] = map[string]int{scriptLoad: allCommands[n][scriptLoad]}
		}
		found = append(found, points(of.play, of.client, allCommands[n], allReplies[n])...)
	}
	for _, kind := range kinds(lua.NewKeys("")) {
		assert.True(w.t, seen[kind.name], "no play ever sends a %s: the plays do not go every way", kind.name)
	}
	return found
}

// least is the lesser of two counts of each kind; the second for a nil first.
func least(a, b map[string]int) map[string]int {
	if a == nil {
		return b
	}
	both := make(map[string]int)
	for kind := range a {
		if n := min(a[kind], b[kind]); n > 0 {
			both[kind] = n
		}
	}
	return both
}

// shuffled brings points into an order of which any beginning is a fair sample: in each round one of every kind
// in every play, as long as there are.
func shuffled(all []point, chance *rand.Rand) []point {
	groups := make(map[string][]point)
	for _, at := range all {
		groups[at.play+"/"+at.kind] = append(groups[at.play+"/"+at.kind], at)
	}
	names := slices.Sorted(maps.Keys(groups))
	for _, name := range names {
		group := groups[name]
		chance.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	}
	var order []point
	for len(order) < len(all) {
		chance.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			if group := groups[name]; len(group) > 0 {
				order, groups[name] = append(order, group[0]), group[1:]
			}
		}
	}
	return order
}

// perform tries points in their order until the time has come or too many have failed, and answers how many
// were tried.
func (w *sweep) perform(order []point, end time.Time) int {
	w.met = 0
	var mu sync.Mutex
	tried := 0
	together(troupes, func(n int) bool {
		if n >= len(order) || time.Now().After(end) || w.enough() {
			return false
		}
		w.play(order[n])
		mu.Lock()
		defer mu.Unlock()
		tried++
		return true
	})
	return tried
}

// enough is whether so many points have failed that there is no need for more: each waits long for what does
// not come.
func (w *sweep) enough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed >= 2*troupes
}

// tell logs what was tried.
func (w *sweep) tell(order []point, tried int) {
	had, of := make(map[string]int), make(map[string]int)
	for n, at := range order {
		name := at.play + " " + at.kind
		of[name]++
		if n < tried {
			had[name]++
		}
	}
	var kinds strings.Builder
	for _, name := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&kinds, "\n%4d of %4d  %s", had[name], of[name], name)
	}
	w.t.Logf("%d points of %d were tried, and %d were met:%s", tried, len(order), w.met, &kinds)
}

// verdict lets the oracle judge every step of all plays.
func (w *sweep) verdict(dir string) {
	report := judge(w.t, w.server, dir, oracle.Allow(oracle.Nowhere, oracle.Quarantine), oracle.OldJanitors())
	shown := make(map[point]bool)
	for _, violation := range report.Violations {
		for n, at := range w.points {
			prefix := fmt.Sprintf("sweep%05d", n)
			if !shown[at] && (strings.HasPrefix(violation.JID, prefix) || strings.Contains(violation.Commands, prefix)) {
				shown[at] = true
				w.t.Errorf("that was at %v; %s", at, again(at))
			}
		}
	}
	if w.t.Failed() || len(w.points) < len(plays) {
		return
	}
	for _, move := range []oracle.Move{oracle.Ended, oracle.Retried, oracle.Snoozed, oracle.Requeued, oracle.Recovered, oracle.Promoted, oracle.Died} {
		n := 0
		for edge, count := range report.Edges {
			if edge.Move == move {
				n += count
			}
		}
		assert.Positive(w.t, n, "no job was ever %s", move)
	}
}
