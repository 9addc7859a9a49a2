package integration

import (
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// The ten steps of docs/ruby.md, done as they are written while both languages push and run jobs, lose no job
// and fail none.
func TestTheTenStepsToGoLoseNothing(t *testing.T) {
	t.Parallel()
	for name, retry := range map[string]any{"retry: false": false, "retry: 5": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site, ruby := newRubySite(t, oracle.Allow(oracle.Queue, oracle.Nowhere), oracle.Allow(oracle.Schedule, oracle.Nowhere),
				oracle.Allow(oracle.Queue, oracle.Queue), oracle.Allow(oracle.Schedule, oracle.Schedule), oracle.Allow(oracle.Retry, oracle.Retry), oracle.Allow(oracle.Retry, oracle.Nowhere))
			m := &migration{T: t, site: site, ruby: ruby, retry: retry, queue: "mail", belays: newLedger(t), pushed: make(map[string]bool)}
			m.deploy("perform")
			m.push(400) // the backlog
			stop := m.traffic()
			for _, step := range tenSteps(t) {
				m.do(step)
			}
			stop()
			m.requireAllRan()
		})
	}
}

// A migration is what the steps change.
type migration struct {
	*testing.T
	*site
	ruby *rubySide
	// retry is the option of the class, and queue the queue that its pushes name.
	retry any
	// workers are Ruby's process, and books what its processes have run.
	stopWorker func()
	books      []string
	belays     *ledger

	mu     sync.Mutex
	queue  string
	pushed map[string]bool
	last   string // the jid of the push by hand
}

// tenSteps are the steps as they stand in the guide.
func tenSteps(t *testing.T) (steps []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/ruby.md")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(text), "## One job in ten steps")
	list, _, _ = strings.Cut(list, "\nTo leave Go altogether")
	for _, step := range regexp.MustCompile(`(?m)^\d+\. `).Split(list, -1)[1:] {
		steps = append(steps, strings.Join(strings.Fields(step), " "))
	}
	require.Len(t, steps, 10)
	return steps
}

// do does what a step says, in the order in which the step says it.
func (m *migration) do(step string) {
	m.Helper()
	type deed struct {
		at int
		do func()
	}
	var deeds []deed
	for pattern, do := range map[string]func(command string){
		"`belay check`":                      func(string) { m.belayed("check") },
		"`./worker (-q go_mail)`":            func(string) { m.work("-q", "go_mail", "-c", "4", "--exec", m.belays.exec("*")) },
		"`belay (push .*? -q go_mail)`":      func(string) { m.last = m.belayed("push", "WelcomeEmail", "42", `"short"`, "-q", "go_mail") },
		"`belay find JID`":                   func(string) { m.belays.awaitEnd(m.last) },
		"`sidekiq_options queue: \"(.*?)\"`": func(queue string) { m.pushTo(queue); m.deploy("perform") },
		"`belay (move .*?)`":                 m.move,
		"Remove `perform`":                   func(string) { m.deploy("gone") },
	} {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatchIndex(step, -1) {
			command := ""
			if len(found) > 2 {
				command = step[found[2]:found[3]]
			}
			deeds = append(deeds, deed{found[0], func() { m.Log(command, "of: ", step); do(command) }})
		}
	}
	sort.Slice(deeds, func(a, b int) bool { return deeds[a].at < deeds[b].at })
	for _, deed := range deeds {
		deed.do()
	}
}

// belayed runs a command and returns what it printed.
func (m *migration) belayed(words ...string) string {
	m.Helper()
	out, errs, code := m.belay(words...)
	require.Zero(m, code, out+errs)
	return strings.TrimSpace(out)
}

// move runs the command until it moves nothing, which the step asks for, if it does.
func (m *migration) move(command string) {
	m.Helper()
	eventually(m.T, "nothing to be left", func() bool {
		return strings.HasPrefix(m.belayed(strings.Fields(command)...), "0 ")
	})
}

// deploy replaces Ruby's process; "gone" is a version of the class without perform.
func (m *migration) deploy(perform string) {
	m.Helper()
	old := m.stopWorker
	worker, book := startSidekiq(m.T, m.site, "QUEUES=mail", "WELCOME="+perform)
	m.books = append(m.books, book)
	m.stopWorker = func() { stopSidekiq(m.T, worker) }
	if old != nil {
		old()
	}
	eventually(m.T, "the new process", func() bool {
		return strings.Contains(fmt.Sprint(m.ruby.processes(m.T).Processes), fmt.Sprint(worker.Process.Pid))
	})
}

func (m *migration) pushTo(queue string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = queue
}

// push pushes jobs of the class from Ruby, every third for later.
func (m *migration) push(jobs int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range jobs {
		item := map[string]any{"class": "WelcomeEmail", "queue": m.queue, "retry": m.retry, "args": []any{n, "short"}}
		if n%3 == 0 {
			item["at"] = seconds(time.Now()) + float64(n%20)
		}
		m.pushed[m.ruby.push(m.T, item)] = true
	}
}

// traffic pushes jobs until stop is called.
func (m *migration) traffic() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			m.push(2)
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(end); <-ended }
}

// requireAllRan waits until each job has run once, or the wait is in vain.
func (m *migration) requireAllRan() {
	m.Helper()
	runs, inRuby := make(map[string]int), 0
	lost := func() (lost int) {
		clear(runs)
		for _, book := range m.books {
			for _, jid := range rubyRan(book) {
				runs[jid]++
			}
		}
		inRuby = len(runs)
		for _, mark := range m.belays.ends("") {
			runs[mark.JID]++
		}
		for jid := range m.pushed {
			if runs[jid] == 0 {
				lost++
			}
		}
		return lost
	}
	for deadline := time.Now().Add(patience); lost() > 0 && time.Now().Before(deadline) && m.ruby.stats(m.T).Failed == 0; {
		time.Sleep(50 * time.Millisecond)
	}
	stats := m.ruby.stats(m.T)
	m.Logf("%d jobs, %d ran in Ruby; %d lost, %d runs failed", len(m.pushed), inRuby, lost(), stats.Failed)
	require.Zero(m, lost())
	require.Zero(m, stats.Failed)
	require.Zero(m, stats.Dead)
	for jid := range m.pushed {
		require.Equal(m, 1, runs[jid], "runs of %s", jid)
	}
	require.Positive(m, inRuby, "Ruby ran none of them: the test proved nothing")
	require.Less(m, inRuby, len(m.pushed)-10, "Go ran none of the backlog: the test proved nothing")
}
