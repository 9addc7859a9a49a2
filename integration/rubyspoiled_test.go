package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/check"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// spoiledCount is how many payloads are spoiled. BELAY_SPOILED says another number.
func spoiledCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BELAY_SPOILED")
	if text == "" {
		return 10_000
	}
	count, err := strconv.Atoi(text)
	require.NoError(t, err, "BELAY_SPOILED")
	return count
}

// Whatever is spoiled in real payloads of Go, Sidekiq and ActiveJob, in queues and in sets, no worker of either
// language ends, each payload runs as often as its rules say or is in the dead set with all its bytes, Ruby's
// jobs beside them run once, and every page of Ruby's dead jobs opens.
//
// Ruby's worker shares a queue with Belay's. In it are only payloads that Ruby can run: see ranByRuby, and
// TestWhatRubyLosesBelayKeeps for what it does to others. Its poller has the interval that docs/ruby.md asks for,
// because it loses due jobs that Sidekiq's client refuses.
//
// BELAY_SEED draws the same spoils again, of payloads with other times.
func TestSpoiledPayloadsBesideRuby(t *testing.T) {
	t.Parallel()
	seed, err := chaosSeed()
	require.NoError(t, err)
	count := spoiledCount(t)
	t.Logf("again: BELAY_SEED=%d BELAY_SPOILED=%d go test -count=1 -run '^TestSpoiledPayloadsBesideRuby$' -v ./integration", seed, count)
	s := newSite(t, drivertest.Start(t))
	s.use("")
	sp := &spoiling{site: s, ruby: startRuby(t, s.url), book: newLedger(t), program: buildWorker(t, "./testdata/spoiledworker")}
	sp.spoiler = &spoiler{Rand: rand.New(rand.NewPCG(seed, 0)), real: sp.capture()}
	sp.test(count)
}

// A spoiling is the payloads that were spoiled, and what becomes of them.
type spoiling struct {
	*site
	*spoiler
	ruby    *rubySide
	book    *ledger
	program string

	jobs       map[string]int      // what must run or die by its rules: how many of a jid
	unreadable map[string]int      // what no worker can run: how many of a text
	queued     map[string]int      // what is in a queue, and so runs first with just these bytes
	shared     []string            // the jids of what either language may run
	named      map[string]bool     // the queues that payloads name
	texts      map[string][]string // the payloads by their jid, for a test that fails
}

// served are the queues of Belay's workers. Ruby's worker takes the one called shared, too.
var served = []string{"odd", "mail", "shared", "low", "default"}

// capture answers what real producers and workers of either language write.
func (sp *spoiling) capture() []string {
	t := sp.t
	t.Helper()
	client, err := belay.Open(t.Context(), sp.urlOf(check.RoleProducer), nil)
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	args := []any{42, "é<&>\u2028", 9007199254740993, 1.0, []any{}, map[string]any{"a": nil}}
	from := []belay.RawJob{
		{Class: "Ran", Args: args}, {Class: "Ran", Args: args, Meta: map[string]string{"locale": "de", "request": "r-1"}, Tags: []string{"a"}},
		{Class: "Ran", Args: args, In: time.Hour}, {Class: "Ran", Args: args, Retry: job.RetryRule{Kind: job.RetryNever}, Timeout: time.Hour},
		{Class: "Ran", Args: args, Unique: &dedup.Rule{Until: dedup.UntilExecuting}},
		{Class: "Ran", Args: []any{"locked"}, Unique: &dedup.Rule{Until: dedup.UntilExecuted}},
		{Class: "Fails", Args: args, Retry: job.RetryRule{Kind: job.RetryLimit, Limit: 0}}, {Class: "Fails", Args: args, Backtrace: 2, NoDead: true},
		{Class: "Fails", Args: args, RetryFor: time.Hour, RetryQueue: "low"},
	}
	for i := range from {
		from[i].Queue = "capture"
		_, err := client.Push(t.Context(), from[i])
		require.NoError(t, err)
	}
	for _, item := range []map[string]any{
		{"class": "Ran", "args": args}, {"class": "Letter", "args": args, "tags": []string{"a", "b"}, "cattr": map[string]any{"user_id": 1}},
		{"class": "Letter", "args": []any{}, "retry": 3, "backtrace": true, "dead": false}, {"class": "Fails", "args": args, "retry": false},
		{"class": "Note", "args": args, "at": float64(time.Now().Unix()) + 3600.5},
	} {
		item["queue"] = "capture"
		sp.ruby.push(t, item)
	}
	sp.ruby.ask(t, nil, "active_job", "capture")
	for n := range 3 { // with all that Ruby writes of a failure
		sp.ruby.push(t, map[string]any{"class": "Raises", "queue": "ruby", "args": []any{n}, "backtrace": 2, "retry": n})
	}
	worker, _ := startSidekiq(t, sp.site, "POLL=3600")
	eventually(t, "Ruby to fail its jobs", func() bool { return len(sp.set("retry")) == 2 && len(sp.set("dead")) == 1 })
	stopSidekiq(t, worker)
	captured := slices.Concat(sp.list("queue:capture"), sp.set("schedule"), sp.set("retry"), sp.set("dead"))
	require.Len(t, captured, len(from)+5+2+3)
	sp.do("FLUSHALL")
	for i, text := range captured { // no poller may bring what is spoiled to the queue of Ruby's own jobs
		captured[i] = strings.Replace(text, `"queue":"ruby"`, `"queue":"low"`, 1)
	}
	return captured
}

func (sp *spoiling) test(count int) {
	t := sp.t
	// Ruby's poller looks once, a few seconds after its start, and then not for half an hour.
	rubyWorker, rubyBook := startSidekiq(t, sp.site, "POLL=3600", "QUEUES=shared")
	sp.do("ZADD", "schedule", "1000000000", rubyPayload("Ran", "unserved", "[]", newJID()))
	eventually(t, "Ruby's poller", func() bool { return sp.do("LLEN", "queue:unserved") == int64(1) })
	sp.do("DEL", "queue:unserved")
	work := func(queues []string, more ...string) *process {
		flags := append([]string{"-redis", sp.url, "-client", sp.client}, more...)
		for _, queue := range queues {
			flags = append(flags, "-q", queue)
		}
		p := sp.launch(sp.program, append(flags, sp.book.path)...)
		p.awaitLog("working")
		return p
	}
	workers := []*process{work(served), work(served)}

	rubys := sp.push(count)
	eventually(t, "the queues to be empty", func() bool { return sp.waiting(served) == 0 && sp.busy() == 0 })
	for _, p := range workers {
		require.False(t, p.ended(), "a worker ended: %s", p.log())
	}
	sp.pages("retries")
	for _, p := range workers {
		waitTerm(t, p)
	}

	// What failed is due, and goes well now: it was kept whole.
	everywhere := append(slices.Sorted(maps.Keys(sp.named)), served...)
	last := work(everywhere, "-all")
	eventually(t, "the retries to be run down", func() bool {
		for _, set := range []string{"retry", "schedule"} {
			words := []string{"ZADD", set, "XX"}
			for _, entry := range sp.set(set) {
				words = append(words, "1000000000", entry)
			}
			if len(words) > 3 {
				sp.do(words...)
			}
		}
		return len(sp.set("retry")) == 0 && len(sp.set("schedule")) == 0 && sp.waiting(everywhere) == 0 && sp.busy() == 0 &&
			sp.status().Quarantined == 0
	})
	require.False(t, last.ended(), last.log())
	sp.account(rubys, rubyBook, sp.discarded(append(workers, last)))
	sp.pages("morgue")
	require.NoError(t, rubyWorker.Process.Signal(syscall.Signal(0)), "Ruby's worker ended")
	require.Len(t, sp.ruby.processes(t).Processes, 2, "Ruby's worker and Belay's last one")
	waitTerm(t, last)
}

// push spoils payloads and stores them, and jobs of Ruby's own between them; it answers their jids.
func (sp *spoiling) push(count int) (rubys []string) {
	sp.jobs, sp.unreadable, sp.queued, sp.named = make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]bool)
	sp.texts = make(map[string][]string)
	texts := sp.payloads(count)
	texts = append(texts, texts[:20]...) // and some twice: two jobs, if they are jobs
	ids := make(map[string]int)
	for _, text := range texts {
		jid, members, ok := runnable(text)
		if !ok {
			// What no worker can run moves to its queue as it is, as long as no worker of Belay takes that.
			if parsed, err := job.ParseToMove(text); err == nil {
				if name := parsed.QueueOrDefault(); job.CheckQueue(name) == nil && !slices.Contains(served, name) {
					sp.named[name] = true
				}
			}
			continue
		}
		ids[jid]++
		for _, field := range []string{"queue", "retry_queue"} {
			var name string
			if json.Unmarshal([]byte(members[field]), &name) == nil && job.CheckQueue(name) == nil && !slices.Contains(served, name) {
				sp.named[name] = true
			}
		}
	}
	to := make(map[string][]string)
	for n, text := range texts {
		jid, members, ok := runnable(text)
		key := []string{"queue:odd", "queue:odd", "queue:mail", "queue:low", "schedule", "retry"}[sp.IntN(6)]
		if n >= count { // a set would hold it once
			key = "queue:odd"
		}
		if ok && ids[jid] == 1 && ranByRuby(text, members) && sp.IntN(2) == 0 {
			key = "queue:shared"
			sp.shared = append(sp.shared, jid)
		} else if ok && members["queue"] == `"ruby"` {
			key = "queue:odd"
		}
		switch {
		case !ok:
			sp.unreadable[text]++
		case strings.HasPrefix(key, "queue:"):
			sp.queued[text]++
			fallthrough
		default:
			sp.jobs[jid]++
		}
		to[key] = append(to[key], text)
		sp.texts[jid] = append(sp.texts[jid], key+" "+text)
		if n%20 == 0 {
			rubys = append(rubys, newJID())
			to["queue:ruby"] = append(to["queue:ruby"], rubyPayload("Ran", "ruby", fmt.Sprintf("[%d]", n), rubys[len(rubys)-1]))
		}
	}
	for key, texts := range to {
		for part := range slices.Chunk(texts, 200) {
			words := []string{"LPUSH", key}
			if !strings.HasPrefix(key, "queue:") {
				words[0] = "ZADD"
			}
			for _, text := range part {
				if words[0] == "ZADD" {
					words = append(words, fmt.Sprintf("%.3f", 1e9+float64(sp.IntN(1e9))/1e3))
				}
				words = append(words, text)
			}
			sp.do(words...)
		}
	}
	sp.t.Logf("%d payloads: %d cannot be read, %d are shared with Ruby", len(texts), total(sp.unreadable), len(sp.shared))
	return rubys
}

func total(counts map[string]int) (sum int) {
	for _, count := range counts {
		sum += count
	}
	return sum
}

// waiting is how much lies in queues, and in that of Ruby's own jobs.
func (sp *spoiling) waiting(queues []string) (sum int64) {
	for _, queue := range append([]string{"ruby"}, queues...) {
		length, _ := sp.do("LLEN", sp.keys.Queue(queue)).(int64)
		sum += length
	}
	return sum
}

// busy is how many jobs are in the hands of workers, of either language.
func (sp *spoiling) busy() (sum int) {
	for _, process := range sp.status().Processes {
		sum += process.Busy
	}
	return sum
}

// discarded are the jids of failed jobs that their payloads forbid to keep, as the workers' logs say.
func (sp *spoiling) discarded(workers []*process) map[string]int {
	gone := make(map[string]int)
	for _, p := range workers {
		for line := range strings.Lines(p.log()) {
			var entry struct{ JID, Exit, Message string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Exit == "discarded" && entry.Message == "run" {
				gone[entry.JID]++
			}
		}
	}
	return gone
}

// account finds every payload again.
func (sp *spoiling) account(rubys []string, rubyBook string, discarded map[string]int) {
	t := sp.t
	t.Helper()
	done, firsts, byRuby := make(map[string]int), make(map[string]int), make(map[string]int)
	text, err := os.ReadFile(sp.book.path)
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		var run struct {
			What, JID string
			Raw       []byte
			Retried   bool
		}
		require.NoError(t, json.Unmarshal(line, &run))
		switch run.What {
		case "start":
			firsts[string(run.Raw)]++
		case "done":
			done[run.JID]++
		}
	}
	for _, jid := range rubyRan(rubyBook) {
		byRuby[jid]++
	}
	for _, jid := range rubys {
		require.Equal(t, 1, byRuby[jid], "runs of Ruby's own job %s", jid)
	}
	eitherRan := 0
	for _, jid := range sp.shared {
		require.Equal(t, 1, byRuby[jid]+done[jid], "runs of the shared job %s", jid)
		eitherRan += byRuby[jid]
	}

	dead, unread := make(map[string]int), make(map[string]int)
	for _, entry := range sp.set("dead") {
		if parsed, err := job.Parse(entry); err == nil {
			if kept, ok := parsed.Kept(); ok {
				entry = kept
			}
		}
		if jid, _, ok := runnable(entry); ok {
			dead[jid]++
		} else {
			unread[entry]++
		}
	}
	for text, count := range sp.unreadable {
		require.Equal(t, count, unread[text], "in the dead set: %.300q", text)
	}
	require.Len(t, unread, len(sp.unreadable))
	for text, count := range sp.queued {
		jid, members, _ := runnable(text)
		if firsts[text] != count && byRuby[jid] == 0 && slices.Contains([]string{`"Ran"`, `"Fails"`, `"Letter"`, `"Note"`, `"Raises"`}, members["class"]) {
			require.Equal(t, count, firsts[text], "runs with these bytes: %.500q", text)
		}
	}
	for jid, count := range sp.jobs {
		require.Equal(t, count, done[jid]+dead[jid]+byRuby[jid]+discarded[jid], "jid %q: %d done, %d dead, %d by Ruby, %d discarded: %.2000q",
			jid, done[jid], dead[jid], byRuby[jid], discarded[jid], sp.texts[jid])
	}
	t.Logf("%d done by Belay, %d by Ruby, %d dead by their rules, %d discarded by their rules", total(done), eitherRan, total(dead), total(discarded))
}

// pages opens all pages of a set, as an operator leafs through them.
func (sp *spoiling) pages(name string) {
	sp.t.Helper()
	set := map[string]string{"retries": "retry", "morgue": "dead"}[name]
	entries, _ := sp.do("ZCARD", set).(int64)
	begun := time.Now()
	for n := range (entries + 24) / 25 {
		var page struct {
			Status int
			HTML   string
		}
		path := fmt.Sprintf("/%s?page=%d", name, n+1)
		if err := sp.ruby.try(&page, "page", path); err != nil {
			first := strconv.FormatInt(n*25, 10)
			command := map[string]string{"retries": "ZRANGE", "morgue": "ZREVRANGE"}[name]
			require.NoError(sp.t, err, "%s of %.20000q", path, texts(sp.do(command, set, first, strconv.FormatInt(n*25+24, 10))))
		}
		require.Equal(sp.t, 200, page.Status, path)
	}
	sp.t.Logf("%d entries on Ruby's pages of %s in %v", entries, name, time.Since(begun).Round(time.Millisecond))
}

// A Ruby worker loses some jobs that it cannot read or write again, and its poller some that are due. Belay keeps
// each of them: it is in the dead set or will be retried.
func TestWhatRubyLosesBelayKeeps(t *testing.T) {
	t.Parallel()
	odd := func(fields string) string {
		return fmt.Sprintf(`{"class":"Raises","queue":"unserved","args":[],"jid":"%s","retry":true,%s}`, newJID(), fields)
	}
	deep := `"own":` + strings.Repeat("[", 100) + strings.Repeat("]", 100)
	const lost, dead, retried = "lost", "in the dead set", "in the retry set"
	taken := map[string]string{ // from a queue
		"null": lost, "42": lost, "[1,2]": lost, `"text"`: lost, // JSON, but no object
		"{": dead, "": dead, "\x00\xff\x80": dead, odd(deep): dead, // no JSON to Ruby: kept as it is
		odd(`"own":1`):                        retried,
		odd(`"own":1e400`):                    lost, // Ruby reads it, and cannot write it
		odd(`"own":"\ud800"`):                 dead,
		odd(`"retry_count":"1"`):              lost, // Ruby cannot count
		odd(`"tags":"a"`):                     retried,
		odd(`"retry_for":"60","own":"6.4.1"`): retried,
	}
	due := []string{"{", "null", odd(deep), odd(`"own":1e400`), odd(`"tags":"a"`), odd(`"at":null`), strings.Replace(odd(`"own":1`), "[]", "{}", 1)}

	s := newSite(t, drivertest.Start(t))
	s.use("")
	where := func(text string) string {
		_, members, isJob := runnable(text)
		for set, name := range map[string]string{"dead": dead, "retry": retried} {
			for _, entry := range s.set(set) {
				if parsed, err := job.Parse(entry); err == nil {
					if kept, ok := parsed.Kept(); ok && kept == text {
						return name
					}
				}
				if entry == text || isJob && strings.Contains(entry, members["jid"]) {
					return name
				}
			}
		}
		return lost
	}
	t.Run("Ruby", func(t *testing.T) {
		worker, book := startSidekiq(t, s, "POLL=3600")
		for text := range taken {
			s.do("LPUSH", "queue:ruby", text)
		}
		last := newJID() // two at a time: the processors that died are replaced
		eventually(t, "Ruby to take all", func() bool { return s.do("LLEN", "queue:ruby") == int64(0) })
		s.do("LPUSH", "queue:ruby", rubyPayload("Ran", "ruby", "[]", last))
		eventually(t, "Ruby to go on", func() bool { return slices.Contains(rubyRan(book), last) })
		stopSidekiq(t, worker)
		for text, fate := range taken {
			require.Equal(t, fate, where(text), "%.200q", text)
		}
		s.do("FLUSHALL")
		for n, text := range due {
			s.do("ZADD", "schedule", fmt.Sprint(1e9+float64(n)), text)
		}
		worker, _ = startSidekiq(t, s)
		eventually(t, "Ruby's poller to take all", func() bool { return s.do("ZCARD", "schedule") == int64(0) })
		stopSidekiq(t, worker)
		for _, text := range due {
			require.Equal(t, lost, where(text), "%.200q", text)
		}
		require.Empty(t, s.list("queue:unserved"))
	})
	t.Run("Belay", func(t *testing.T) {
		s.do("FLUSHALL")
		var every []string
		for text := range taken {
			s.do("LPUSH", "queue:unserved", text)
			every = append(every, text)
		}
		for n, text := range due {
			s.do("ZADD", "schedule", fmt.Sprint(1e9+float64(n)), text)
			if n > 1 { // the first two are as in the queue
				every = append(every, text)
			}
		}
		p := s.work("-q", "unserved", "-c", "2", "--exec", "Raises=false")
		eventually(t, "Belay to end all", func() bool {
			return s.do("ZCARD", "dead").(int64)+s.do("ZCARD", "retry").(int64) == int64(len(taken)+len(due))
		})
		for _, text := range every {
			require.NotEqual(t, lost, where(text), "%.200q", text)
		}
		// What failed once may be moved by Ruby's poller: it loses none of them for its tags or times.
		for _, entry := range s.set("retry") {
			require.NotContains(t, entry, `"tags":"a"`)
			require.NotContains(t, entry, `"at":`)
			require.NotContains(t, entry, `"retry_for":"60"`)
		}
		waitTerm(t, p)
	})
}
