package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/activejob"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/inspect"
)

// A shop is a site whose jobs are all accounted for: each is in one place, has run in Go, or was deleted on
// purpose.
type shop struct {
	*site
	client               *belay.Client
	folder               string
	pushed               []string
	gone                 map[string]bool // deleted on purpose
	workers              map[string]*program
	ledger, gate, mended string // files of its workers
}

func newShop(s *site) *shop {
	s.t.Helper()
	driver, err := goredisdriver.Open(s.redis.URL())
	require.NoError(s.t, err)
	client, err := belay.NewClient(driver, nil)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, client.Close()); require.NoError(s.t, driver.Close()) })
	dir := s.t.TempDir()
	return &shop{site: s, client: client, folder: dir, gone: map[string]bool{}, workers: map[string]*program{},
		ledger: filepath.Join(dir, "ledger"), gate: filepath.Join(dir, "gate"), mended: filepath.Join(dir, "mended")}
}

// worker starts a worker that takes from the shop's queues.
func (s *shop) worker(name string) {
	s.t.Helper()
	p := s.run(exec.Command(shopPath, "-redis", s.redis.URL(), "-name", name, "-q", "live paused", s.ledger, s.gate, s.mended))
	s.workers[name] = p
	eventually(s.t, "worker "+name, func() bool { return s.process(name) != nil })
}

// awaitExit waits until a worker has ended with status 0.
func (s *shop) awaitExit(name string) {
	s.t.Helper()
	p := s.workers[name]
	p.awaitEnd()
	require.Zero(s.t, p.cmd.ProcessState.ExitCode(), "%s", p.log)
	require.Nil(s.t, s.process(name))
}

// push pushes a job, and answers its jid.
func (s *shop) push(class, queue string, args []any, options ...belay.JobOption) string {
	s.t.Helper()
	raw := belay.RawJob{Class: class, Queue: queue, Args: args}
	for _, option := range options {
		option(&raw)
	}
	receipt, err := s.client.Push(s.t.Context(), raw)
	require.NoError(s.t, err)
	require.NotEqual(s.t, belay.StatusDuplicate, receipt.Status)
	s.pushed = append(s.pushed, receipt.JID)
	return receipt.JID
}

// many pushes jobs with numbers for their last argument.
func (s *shop) many(n int, class, queue string, args []any, options ...belay.JobOption) (jids []string) {
	s.t.Helper()
	for at := range n {
		jids = append(jids, s.push(class, queue, append(slices.Clone(args), at), options...))
	}
	return jids
}

// ran returns the jids of the jobs that have run in Go to their end.
func (s *shop) ran() map[string]bool {
	s.t.Helper()
	text, err := os.ReadFile(s.ledger)
	if !os.IsNotExist(err) {
		require.NoError(s.t, err)
	}
	jids := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var run struct{ JID string }
		require.NoError(s.t, json.Unmarshal([]byte(line), &run))
		jids[run.JID] = true
	}
	return jids
}

// awaitRuns waits until jobs have run in Go.
func (s *shop) awaitRuns(jids ...string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint("runs in Go of ", jids), func() bool {
		ran := s.ran()
		return !slices.ContainsFunc(jids, func(jid string) bool { return !ran[jid] })
	})
}

func (s *shop) awaitPlace(place inspect.Place, jids ...string) {
	s.t.Helper()
	for _, jid := range jids {
		eventually(s.t, fmt.Sprint(jid, " to be in ", place), func() bool { return s.find(jid).Place == place })
	}
}

// awaitReports waits until workers report that they run jobs.
func (s *shop) awaitReports(jids ...string) {
	s.t.Helper()
	for _, jid := range jids {
		eventually(s.t, "the report of "+jid, func() bool { return s.find(jid).Reported })
	}
}

// set writes or removes a file of the workers.
func (s *shop) set(path string, exists bool) {
	s.t.Helper()
	if exists {
		require.NoError(s.t, os.WriteFile(path, nil, 0o600))
	} else {
		require.NoError(s.t, os.Remove(path))
	}
}

// everyJobIsSomewhere checks that each job is in one place, has run in Go, or was deleted on purpose.
func (s *shop) everyJobIsSomewhere() {
	s.t.Helper()
	problems := s.misplaced()
	for tries := 0; tries < 5 && len(problems) > 0; tries++ { // one that moves during the search may be seen twice, or not
		problems = s.misplaced()
	}
	require.Empty(s.t, problems)
}

// misplaced describes jobs that are not where they should be.
func (s *shop) misplaced() (problems []string) {
	s.t.Helper()
	places := map[string][]inspect.Place{}
	for found, err := range s.inspector.Jobs(s.t.Context(), inspect.Query{Limit: 1000}) {
		require.NoError(s.t, err)
		places[found.JID] = append(places[found.JID], found.Place)
	}
	ran := s.ran()
	for _, jid := range s.pushed {
		switch at := places[jid]; {
		case s.gone[jid] && (len(at) > 0 || ran[jid]):
			problems = append(problems, fmt.Sprintf("%s was deleted; it is in %v, and ran: %v", jid, at, ran[jid]))
		case len(at) > 1:
			problems = append(problems, fmt.Sprintf("%s is in %v", jid, at))
		case len(at) == 0 && !s.gone[jid] && !ran[jid]:
			problems = append(problems, jid+" is lost")
		}
	}
	return problems
}

// deleted says that jobs were deleted on purpose.
func (s *shop) deleted(jids ...string) {
	for _, jid := range jids {
		s.gone[jid] = true
	}
}

// hostile are texts that some dashboard once executed, or was deceived by. A script of theirs calls attack.
var hostile = []string{
	`<script>attack()</script>`, `"><img src=x onerror=attack()>`, `'><svg onload=attack()>`, `javascript:attack()`, `{{7*7}}attack`,
	`</script><script>attack()</script>`, `</title></textarea></pre></code></td></table><script>attack()</script>`,
	"attack\u2028alert(1)\u2029", "attack\u202egnp.exe\u2066", "attack\x00\x01\x1b[31m\x7f", "attack\u200b\ufeff\u200d", "attack\r\nSet-Cookie: a=b",
	`<svg><style>@import "//attack"</style></svg>`, `" autofocus onfocus=attack() x="`, `../../attack`, `%2e%2e/attack%00`, `attack&lt;b&gt;`,
	"`${attack()}`", strings.Repeat("attack ", 3000), strings.Repeat("attack", 3000), strings.Repeat("<b>é", 20_000),
}

// short cuts a text to the length of a tag.
func short(text string) string { return text[:min(len(text), 80)] }

// names are the hostile texts with HTML that Belay accepts for the name of a class.
func names() (fit []string) {
	for _, text := range hostile {
		if len(text) < 200 && !strings.ContainsFunc(text, unicode.IsControl) && strings.ContainsAny(text, `<>"'&`) {
			fit = append(fit, text)
		}
	}
	return fit
}

// An inventory is what the shop has when the pages are opened.
type inventory struct {
	mail, clear, paused, held, imports, retries, scheduled, dead, quarantined []string
	unread                                                                    int
}

const hours = 2 * time.Hour

// open fills the shop with jobs of all sorts, and starts its workers.
func (s *shop) open() (st inventory) {
	s.t.Helper()
	unique := belay.Unique(belay.UntilExecuted, belay.UniqueOpts{TTL: 3 * time.Hour})
	st.mail = s.many(60, "WelcomeEmail", "mail", []any{"ann@example.com", map[string]any{"locale": "de", "note": nil}}, belay.Tags("welcome", "vip"))
	st.mail = append(st.mail, s.push("Long", "mail", []any{strings.Repeat("a long text ", 30)}), s.push("Index", "mail", []any{7}, unique))
	st.clear = s.many(5, "Old", "clear", nil)
	st.paused = s.many(3, "Later", "paused", nil)
	_, err := s.inspector.Pause(s.t.Context(), "paused")
	require.NoError(s.t, err)
	quarantined := s.push("Crashes", "quarantine", []any{1})
	words := s.do("RPOP", s.keys.Queue("quarantine"))
	s.do("LPUSH", s.keys.Quarantine("quarantine"), fmt.Sprint(words))
	st.quarantined = []string{quarantined}

	// What fails goes through a worker.
	fails := func(text string, options ...belay.JobOption) {
		st.retries = append(st.retries, s.push("Fails", "live", []any{text, "fails", map[string]any{text: text}}, options...))
	}
	for _, text := range hostile {
		fails(text, belay.Tags(short(text)))
	}
	for _, text := range names() {
		st.dead = append(st.dead, s.push("Kills", "live", []any{text, "kills"}, belay.Tags(short(text))))
	}
	for n := range 5 {
		st.retries = append(st.retries, s.push("Sends", "live", []any{fmt.Sprintf("smtp.example.com:587 did not answer in %d s", n), "fails"}))
		st.dead = append(st.dead, s.many(4, "Bills", "live", []any{fmt.Sprintf("customer %d is unknown", n), "kills"})...)
	}
	fails("no index", unique)
	st.retries = append(st.retries,
		s.push("Panics", "live", []any{"torn"}, belay.Backtrace(-1)),
		s.push("Panics", "live", []any{`<script>attack()</script>`}, belay.Backtrace(20)),
		s.pushRaw(belay.Define[string]("ShopJob", belay.Queue("live"), belay.NotIdempotent("a test")).Job("no stock", activejob.Wrap(activejob.Envelope{Locale: "de"}))))
	// Ruby: Base64.strict_encode64(Zlib::Deflate.deflate('["too much","fails"]'))
	const compressed = "c0ffee000000000000000001"
	s.do("LPUSH", s.keys.Queue("live"), `{"class":"Squeezed","jid":"`+compressed+`","queue":"live","args":["eJyLVirJz1fILU3OUNJRSkvMzClWigUARccGmw=="],`+
		`"compressed":true,"original_job_size_bytes":20,"retry":true,"created_at":1700000000.5,"enqueued_at":1700000000.5}`)
	s.pushed, st.retries = append(s.pushed, compressed), append(st.retries, compressed)
	unread := []string{"{", "null", `"text"`, "\x00\xff\x80", `{"class":"C","jid":"a","args":{}}`, `<script>attack()</script>`}
	for _, text := range unread {
		s.do("LPUSH", s.keys.Queue("live"), text)
	}
	st.unread = len(unread)

	st.scheduled = s.many(25, "Reports", "live", []any{"later"}, belay.In(hours))
	for _, text := range names() {
		st.scheduled = append(st.scheduled, s.push("Reminder", "live", []any{text}, belay.In(hours), belay.Tags(short(text))))
	}
	st.scheduled = append(st.scheduled, s.push("Index", "live", []any{8}, belay.In(hours), belay.Unique(belay.UntilExecuted, belay.UniqueOpts{TTL: 3 * time.Hour, IncludingScheduled: true})))

	s.worker("worker-a")
	st.held = s.many(2, "Held", "live", nil)
	st.imports = s.many(2, "Import", "live", nil)
	cancelled := s.push("Import", "live", []any{"cancelled"})
	s.awaitPlace(inspect.PlaceRetry, st.retries...)
	s.awaitPlace(inspect.PlaceDead, st.dead...)
	eventually(s.t, "unreadable entries to be dead", func() bool { return s.size("dead", "") == len(st.dead)+st.unread })
	s.worker("worker-b")
	s.awaitReports(slices.Concat([]string{cancelled}, st.held, st.imports)...)
	answers, err := s.inspector.Cancel(s.t.Context(), cancelled)
	require.NoError(s.t, err)
	require.Len(s.t, answers, 1)
	s.awaitPlace(inspect.PlaceNotFound, cancelled)
	s.deleted(cancelled)
	run, err := s.inspector.RunPeriodic(s.t.Context(), "yearly")
	require.NoError(s.t, err)
	require.NotEmpty(s.t, run.JID)
	return st
}

// pushRaw pushes a job that a definition made.
func (s *shop) pushRaw(raw belay.RawJob) string {
	s.t.Helper()
	receipt, err := s.client.Push(s.t.Context(), raw)
	require.NoError(s.t, err)
	s.pushed = append(s.pushed, receipt.JID)
	return receipt.JID
}

// gone is a worker that takes from the queue gone, with the name that it has in the pages.
func gone(s *shop) *exec.Cmd {
	return exec.Command(belayPath, "work", "--redis", s.redis.URL(), "-q", "lost", "--name", "a dead worker", "--tag", "blue",
		"--label", "programs", "--exec", "*=sleep 3600")
}
