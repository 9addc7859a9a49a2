package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// clicked is how many jobs of each kind are clicked at while they move. BELAY_LONG=1 has more.
func clicked() int {
	if os.Getenv("BELAY_LONG") == "1" {
		return 2000
	}
	return 200
}

// quickest is how long one of them takes to move at least. On a busy machine it takes longer, or the clicks would
// come later and later, and none would be in time; but not longer than slowest, whatever a stall makes of the pace.
const quickest, slowest = 12 * time.Millisecond, 100 * time.Millisecond

// A click is what an operator asks of a job on a page that was loaded before.
type click struct {
	page, verb, jid string
	at              time.Time
	did             bool // as Sidekiq answered
}

// An operator uses Ruby's dashboard.
type operator struct {
	ruby   *rubySide
	clicks []*click
}

// clicksAll loads the pages and clicks at each job in its time.
func (o *operator) clicksAll(ready *sync.WaitGroup) error {
	slices.SortFunc(o.clicks, func(x, y *click) int { return x.at.Compare(y.at) })
	ready.Done()
	ready.Wait()
	var list [][]any
	for _, c := range o.clicks {
		list = append(list, []any{c.page, c.verb, c.jid, seconds(c.at)})
	}
	var did []bool
	if err := o.ruby.try(&did, "clicks", list); err != nil {
		return err
	}
	for i, c := range o.clicks {
		c.did = did[i]
	}
	return nil
}

// The pages, and what operators do there. "" is to leave it alone.
var buttons = map[string][]string{
	"schedule": {"delete", "add_to_queue", "kill", ""},
	"retry":    {"delete", "retry", "kill", ""},
	"dead":     {"delete", "retry"},
	"slow":     {"delete", ""}, // a queue
}

// A melee is jobs that move and two operators who click at them in the same moment.
type melee struct {
	*site
	count  int                 // of the jobs of each kind
	each   time.Duration       // how long one of them takes to move
	clicks map[string][]*click // by jid
	pages  map[string]string   // by jid
	mu     sync.Mutex
	runs   map[string]int // by jid
}

// Two operators delete, retry and kill jobs on pages of Ruby's dashboard while Belay promotes and runs the same
// jobs: exactly one operator or worker gets each job, and an operator whose click was reported as done did it.
func TestOperatorsReachForMovingJobs(t *testing.T) {
	t.Parallel()
	s, ruby := newRubySite(t, oracle.Operators(), oracle.Allow(oracle.Nowhere, oracle.Retry), oracle.Allow(oracle.Nowhere, oracle.Dead))
	operators := []*operator{{ruby: ruby}, {ruby: startRuby(t, s.url)}}
	m := &melee{site: s, count: clicked(), each: quickest}
	m.each = min(max(quickest, 3*min(pace(t, s, operators), pace(t, s, operators))), slowest)
	var begin time.Time
	for slack := 3 * time.Second; ; slack *= 2 { // in which the pages are loaded
		begin = time.Now().Add(slack + time.Duration(m.count)*m.each)
		m.prepare(operators, begin)
		if time.Now().Before(begin) {
			break
		}
		require.Less(t, slack, patience, "loading the pages takes too long")
		m.do("FLUSHALL")
	}
	time.Sleep(time.Until(begin)) // nothing is due before, and what waits in a queue is to go as slowly
	m.work()
	clickAll(t, operators, time.Duration(m.count)*m.each)
	eventually(t, "everything to come to rest", func() bool { return s.waiting() == 0 && m.counted() })
	m.requireOneWinnerEach()
}

// clickAll has all operators click at once, until their last click, which is due within a span.
func clickAll(t *testing.T, operators []*operator, span time.Duration) {
	t.Helper()
	var ready sync.WaitGroup
	ready.Add(len(operators))
	ended := make(chan error, len(operators))
	for _, o := range operators {
		go func() { ended <- o.clicksAll(&ready) }()
	}
	for range operators {
		require.NoError(t, receiveWithin(t, span+patience, "an operator's last click", ended))
	}
}

// pace is how long it takes operators who do not pause to click at one job of each kind. Nothing works meanwhile.
func pace(t *testing.T, s *site, operators []*operator) time.Duration {
	t.Helper()
	m := &melee{site: s, count: 20, each: time.Millisecond}
	m.prepare(operators, time.Now())
	began := time.Now()
	clickAll(t, operators, 0)
	took := time.Since(began) / time.Duration(m.count)
	t.Logf("clicks at one job of each kind take %v", took)
	m.do("FLUSHALL")
	return took
}

// prepare stores all jobs, of which none is due before an instant, chooses the clicks at them, and loads the pages.
func (m *melee) prepare(operators []*operator, begin time.Time) {
	m.t.Helper()
	m.clicks, m.pages, m.runs = make(map[string][]*click), make(map[string]string), make(map[string]int)
	for _, o := range operators {
		o.clicks = nil
	}
	for page, verbs := range buttons {
		// Each has its part of the span: of two jobs with one score Ruby does not answer which of them it had.
		for n, part := range rand.Perm(m.count) {
			at := begin.Add(time.Duration(part)*m.each + rand.N(m.each))
			jid := m.store(page, n, at)
			m.pages[jid] = page
			for _, o := range operators {
				if verb := verbs[rand.N(len(verbs))]; verb != "" {
					c := &click{page: page, verb: verb, jid: jid, at: at.Add(rand.N(m.each*2/3) - m.each/6)}
					o.clicks = append(o.clicks, c)
					m.clicks[jid] = append(m.clicks[jid], c)
				}
			}
		}
		for _, o := range operators {
			var size int
			o.ruby.ask(m.t, &size, "load_page", page)
			require.Equal(m.t, m.count, size)
		}
	}
}

// store stores a job where a page shows it, due at an instant if that matters there.
func (m *melee) store(page string, n int, at time.Time) (jid string) {
	m.t.Helper()
	jid = newJID()
	score := strconv.FormatFloat(seconds(at), 'f', 6, 64)
	switch page {
	case "slow":
		m.do("LPUSH", m.keys.Queue(page), rubyPayload("Any", page, jsonArgs(n, 0), jid))
	case "schedule":
		m.do("ZADD", page, score, rubyPayload("Any", "default", jsonArgs(n, 0), jid))
	default:
		failed := fmt.Sprintf(`{"retry":true,"queue":"default","class":"Any","args":[],"jid":%q,"created_at":1700000000.5,`+
			`"error_message":"x","error_class":"X","failed_at":1700000000.5,"retry_count":0}`, jid)
		m.do("ZADD", page, score, failed)
	}
	return jid
}

// work starts workers: one for what is promoted, and a single processor that comes to the jobs of a queue one
// by one.
func (m *melee) work() {
	m.t.Helper()
	for queue, concurrency := range map[string]int{"default": 10, "slow": 1} {
		m.run(launcher.Config{Client: m.driverOf(check.RoleWorker), Concurrency: concurrency, Queues: []fetch.Queue{{Name: queue}}}, func(_ context.Context, j *job.Job) error {
			m.mu.Lock()
			m.runs[j.JID()]++
			m.mu.Unlock()
			if queue == "slow" {
				time.Sleep(m.each)
			}
			return nil
		})
	}
}

// counted is whether every run has been settled.
func (m *melee) counted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := 0
	for _, n := range m.runs {
		sum += n
	}
	return m.text(m.keys.Processed()) == strconv.Itoa(sum)
}

// requireOneWinnerEach holds that what became of each job is what exactly one operator or worker
// made of it.
func (m *melee) requireOneWinnerEach() {
	m.t.Helper()
	dead := make(map[string]bool)
	for _, entry := range m.set(m.keys.Dead()) {
		parsed, err := job.Parse(entry)
		require.NoError(m.t, err)
		dead[parsed.JID()] = true
	}
	wins := make(map[string]int)
	for jid, page := range m.pages {
		winner := ""
		for _, c := range m.clicks[jid] {
			if c.did {
				require.Empty(m.t, winner, "two operators were answered that they had job %s of %s", jid, page)
				winner = c.verb
			}
		}
		wins[page+" "+winner]++
		want, killed := 1, false
		switch winner {
		case "delete":
			want = 0
		case "kill":
			want, killed = 0, true
		case "":
			require.NotEqual(m.t, "dead", page, "no operator had job %s, and two clicked at it", jid)
		}
		require.Equal(m.t, want, m.runs[jid], "runs of job %s of %s, of which %q was said", jid, page, winner)
		require.Equal(m.t, killed, dead[jid], "job %s of %s, of which %q was said", jid, page, winner)
	}
	m.t.Log("who had them: ", wins)
	for _, each := range []string{"schedule ", "schedule delete", "schedule add_to_queue", "schedule kill", "retry ", "retry delete", "retry retry",
		"retry kill", "dead delete", "dead retry", "slow ", "slow delete"} {
		require.Positive(m.t, wins[each], "%q has never won: the test proves nothing", each)
	}
	lost := 0
	for jid := range m.pages {
		for _, c := range m.clicks[jid] {
			if !c.did && c.page != "dead" {
				lost++
			}
		}
	}
	require.Positive(m.t, lost, "no click came too late: the test proves nothing")
}
