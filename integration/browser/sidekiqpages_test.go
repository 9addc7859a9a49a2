package browser

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/inspect"
)

// Sidekiq's own pages, as docs/ruby.md builds them, show Belay's jobs and processes in Chromium, and each of their
// buttons does what it says.
func TestSidekiqsPages(t *testing.T) {
	s := newShop(newSite(t))
	st := s.open()
	first := s.sidekiqWeb(true)
	b := newTab(t)
	asOperator(b, "en-GB")
	part := func(name string, test func(v *visit)) {
		t.Run(name, func(t *testing.T) {
			b.t, s.t = t, t
			test(&visit{tab: b, s: s, first: first, stock: &st})
			require.Empty(t, faults(b))
			require.Empty(t, b.takeAsked())
			s.everyJobIsSomewhere()
		})
	}
	part("every page", (*visit).everyPage)
	part("hostile names", (*visit).hostileNames)
	part("polling", (*visit).polling)
	part("languages", (*visit).languages)
	part("queues", (*visit).queues)
	part("retries", (*visit).retries)
	part("scheduled", (*visit).scheduled)
	part("dead", (*visit).dead)
	part("locks", (*visit).locks)
	part("processes", (*visit).processes)
}

// A visit is what one part of the test needs.
type visit struct {
	*tab
	s     *shop
	first string
	stock *inventory
}

// entry is the path of the page of a job in a set.
var entry = regexp.MustCompile(`^/(retries|scheduled|morgue)/(-?[0-9.e+]+)-(.*)$`)

// crawl opens each page that links lead to, and takes a picture of each kind. It opens the pages of few jobs
// that differ only by a number: the rest was rendered alike. It returns the addresses.
func (v *visit) crawl() (pages []string) {
	v.t.Helper()
	todo, seen, kinds := []string{v.first, v.first + "?days=1", v.first + "stats", v.first + "stats/queues", v.first + "dashboard/stats"}, map[string]bool{}, map[string]int{}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		where, err := url.Parse(at)
		require.NoError(v.t, err)
		kind := where.Path
		if found := entry.FindStringSubmatch(where.Path); found != nil {
			kind = found[1] + " job " + v.s.find(found[3]).Class
		} else if strings.HasPrefix(kind, "/queues/") && where.RawQuery != "" {
			kind = "other pages of queues"
		} else if where.RawQuery != "" {
			kind += " other pages"
		}
		if kinds[kind]++; kinds[kind] > len(hostile) || strings.Contains(kind, "other pages") && kinds[kind] > 4 || strings.HasSuffix(kind, "Reports") && kinds[kind] > 1 {
			continue
		}
		require.Less(v.t, len(seen), 500, "the crawl does not end")
		v.open(at)
		require.Empty(v.t, faults(v.tab), "on %s", at)
		require.Zero(v.t, eval[int](v.tab, "window.attacks"), "a script of a hostile text ran on %s", at)
		pages = append(pages, where.Path)
		if kinds[kind] == 1 {
			v.picture("sidekiq-" + cmp.Or(nameOf(kind), "dashboard"))
		}
		todo = append(todo, eval[[]string](v.tab, "testing.links()")...)
	}
	return pages
}

func (v *visit) everyPage() {
	answer, err := http.Get(v.first)
	require.NoError(v.t, err)
	require.NoError(v.t, answer.Body.Close())
	require.Equal(v.t, http.StatusUnauthorized, answer.StatusCode, "no page without the password")
	victim := v.s.run(gone(v.s))
	held := v.s.push("Held", "lost", nil)
	v.s.awaitReports(held)
	victim.kill()
	v.open(v.first + "busy")
	v.picture("sidekiq-busy-with-a-dead-process")
	require.Contains(v.t, v.text(), "a-dead-worker:")
	require.Contains(v.t, v.text(), held)
	pages := v.crawl()
	v.t.Logf("%d pages", len(pages))
	for _, path := range []string{"/", "/busy", "/queues", "/queues/mail", "/queues/paused", "/retries", "/scheduled", "/morgue", "/stats", "/stats/queues"} {
		require.Contains(v.t, pages, path)
	}
}

// text is what the page says.
func (v *visit) text() string {
	v.t.Helper()
	return eval[string](v.tab, "testing.clean(document.body.innerText)")
}

// Sidekiq 6 writes classes, queues of jobs, tags of processes and additional fields into its pages as they are.
// The policy of the image keeps their scripts from running.
func (v *visit) hostileNames() {
	var queued, scheduled, retries, dead, held []string
	for n, name := range names() {
		with := belay.Meta("customer", name)
		queued = append(queued, v.s.push(name, "hostile", []any{name}, with))
		v.s.push("Plain", fmt.Sprintf("hostile %d %s", n, name), nil)
		scheduled = append(scheduled, v.s.push(name, "live", []any{name}, with, belay.In(hours)))
		retries = append(retries, v.s.push(name, "live", []any{name, "fails"}, with))
		dead = append(dead, v.s.push(name, "live", []any{name, "kills"}, with))
	}
	evil := v.s.run(exec.Command(belayPath, "work", "--redis", v.s.redis.URL(), "-q", "evil", "--name", names()[0], "--tag", names()[1],
		"--label", names()[2], "--shutdown-timeout", "0s", "--exec", "*=sleep 3600"))
	held = append(held, v.s.push(names()[0], "evil", []any{names()[0]}), v.s.push(names()[1], "evil", []any{names()[1]}))
	v.s.awaitPlace(inspect.PlaceRetry, retries...)
	v.s.awaitPlace(inspect.PlaceDead, dead...)
	v.s.awaitReports(held...)
	v.open(v.first + "retries?count=500")
	require.Contains(v.t, strings.Join(v.takeProblems(), "\n"), "Content Security Policy", "without the policy, these texts would be scripts")
	look := func(at string) {
		v.open(at)
		require.Zero(v.t, eval[int](v.tab, "window.attacks"), "a script of a hostile text ran on %s", at)
		require.Empty(v.t, faults(v.tab, refused), "on %s", at)
	}
	for _, path := range []string{"busy", "queues", "queues/hostile", "retries?count=500", "scheduled?count=500", "morgue?count=500"} {
		look(v.first + path)
		v.picture("sidekiq-hostile-" + nameOf(path))
		if !strings.Contains(path, "?") {
			continue
		}
		links := eval[[]string](v.tab, "testing.links()")
		n := 0
		for _, jid := range slices.Concat(scheduled, retries, dead) {
			if at := slices.IndexFunc(links, func(to string) bool { return strings.HasSuffix(to, "-"+jid) }); at >= 0 {
				look(links[at])
				if n++; n == 2 {
					v.picture("sidekiq-hostile-job-of-" + nameOf(path))
				}
			}
		}
		require.Equal(v.t, len(names()), n, "jobs with hostile names on %s", path)
	}
	// Their jobs can be deleted, ticked on the lists.
	for path, jids := range map[string][]string{"retries": retries, "scheduled": scheduled, "morgue": dead} {
		v.open(v.first + path + "?count=500")
		v.tick(jids...)
		v.send(v.submit("/"+path, "delete"))
		v.s.awaitPlace(inspect.PlaceNotFound, jids...)
		v.s.deleted(jids...)
	}
	v.open(v.first + "queues")
	v.send(v.submit("/queues/hostile", "delete"))
	v.s.awaitPlace(inspect.PlaceNotFound, queued...)
	v.s.deleted(queued...)
	v.open(v.first + "busy")
	at := slices.IndexFunc(v.s.status().Processes, func(p inspect.Process) bool { return p.Tag == names()[1] })
	require.NotEqual(v.t, -1, at)
	v.send(processButton(&v.s.status().Processes[at], "stop"))
	evil.awaitEnd()
	v.s.awaitPlace(inspect.PlaceQueue, held...)
	require.Empty(v.t, faults(v.tab, refused))
}

// submit is an expression for a button by the path of its form and by its name.
func (v *visit) submit(path, name string) string {
	return fmt.Sprintf("document.querySelector(%q)", fmt.Sprintf("form[action=%q] [type=submit][name=%s]", path, name))
}

// tick ticks the boxes of jobs.
func (v *visit) tick(jids ...string) {
	v.t.Helper()
	for _, jid := range jids {
		v.click(fmt.Sprintf("document.querySelector(%q)", fmt.Sprintf("input[name='key[]'][value$='-%s']", jid)))
	}
	require.Equal(v.t, len(jids), eval[int](v.tab, "document.querySelectorAll('input[name=\"key[]\"]:checked').length"))
}

// openJob opens the page of a job from its list.
func (v *visit) openJob(list, jid string) (path string) {
	v.t.Helper()
	v.open(v.first + list + "?count=500")
	v.open(eval[string](v.tab, fmt.Sprintf("document.querySelector(%q).href", fmt.Sprintf("td a[href$='-%s']", jid))))
	require.Contains(v.t, v.text(), jid)
	return eval[string](v.tab, "location.pathname")
}

// What the scripts of Sidekiq, which Debian's package lacks, ask for again and again.
func (v *visit) polling() {
	v.open(v.first + "busy")
	before := v.stats()
	require.Equal(v.t, v.s.size("retries", ""), before.Retries)
	require.Equal(v.t, v.s.size("scheduled", ""), before.Scheduled)
	require.Equal(v.t, v.s.size("dead", ""), before.Dead)
	held, quick := v.s.push("Held", "live", nil), v.s.push("Quick", "live", nil)
	v.stock.held = append(v.stock.held, held)
	v.s.awaitRuns(quick)
	v.s.awaitReports(held)
	eventually(v.t, "the counter of runs", func() bool { return v.stats().Processed == before.Processed+1 })
	require.Equal(v.t, before.Failed, v.stats().Failed)
	require.Contains(v.t, v.get("/busy"), held)
}

// sidekiqStats is a part of what /stats answers.
type sidekiqStats struct{ Processed, Failed, Retries, Scheduled, Dead int }

func (v *visit) stats() sidekiqStats {
	v.t.Helper()
	var answer struct{ Sidekiq sidekiqStats }
	require.NoError(v.t, json.Unmarshal([]byte(v.get("/stats")), &answer))
	return answer.Sidekiq
}

// get gets a text from the page that is open, as its script would.
func (v *visit) get(path string) string {
	v.t.Helper()
	return eval[string](v.tab, fmt.Sprintf("(() => { const ask = new XMLHttpRequest(); ask.open('GET', %q, false); ask.send(); return ask.responseText })()", path))
}

func (v *visit) languages() {
	defer asOperator(v.tab, "en-GB")
	for language, words := range map[string][]string{"de": {"Warteschlangen", "Beschäftigt"}, "ja": {"キュー", "実行中"}, "ar": {"أرتال", "مشغول"}} {
		asOperator(v.tab, language)
		for _, path := range []string{"", "busy", "queues", "queues/mail", "retries", "scheduled", "morgue"} {
			v.open(v.first + path)
			require.Empty(v.t, faults(v.tab), "%s in %s", path, language)
			text := v.text()
			require.Contains(v.t, text, words[0])
			require.Contains(v.t, text, words[1])
			require.Equal(v.t, language == "ar", eval[bool](v.tab, "document.dir === 'rtl'"))
			if path == "busy" || path == "retries" {
				v.picture("sidekiq-" + path + "-in-" + language)
			}
		}
	}
}

func (v *visit) queues() {
	mail := v.stock.mail
	locks, err := v.s.inspector.LockCount(v.t.Context())
	require.NoError(v.t, err)
	v.open(v.first + "queues/mail")
	row := func(jid string) string {
		return fmt.Sprintf("document.querySelector(%q)", fmt.Sprintf("tr[title='%s'] [type=submit][name=delete]", jid))
	}
	unique := mail[len(mail)-1]
	v.send(row(unique))
	v.s.awaitPlace(inspect.PlaceNotFound, unique)
	v.s.deleted(unique)
	left, err := v.s.inspector.LockCount(v.t.Context())
	require.NoError(v.t, err)
	require.Equal(v.t, locks-1, left, "belay.rb releases the lock of a job that the page deletes")
	v.open(v.first + "queues/mail?page=2")
	v.send(row(mail[20]))
	v.s.awaitPlace(inspect.PlaceNotFound, mail[20])
	v.s.deleted(mail[20])
	require.Equal(v.t, "?page=2", eval[string](v.tab, "location.search"))
	require.Equal(v.t, len(mail)-2, v.s.size("queue", "mail"))

	v.open(v.first + "queues")
	v.send(v.submit("/queues/clear", "delete"))
	v.s.deleted(v.stock.clear...)
	require.Zero(v.t, v.s.size("queue", "clear"))
	require.False(v.t, eval[bool](v.tab, "!!"+v.submit("/queues/clear", "delete")))
	again := v.s.push("Old", "clear", nil)
	v.open(v.first + "queues")
	require.True(v.t, eval[bool](v.tab, "!!"+v.submit("/queues/clear", "delete")), "a push brings the queue back")
	v.s.awaitPlace(inspect.PlaceQueue, again)

	v.s.awaitPlace(inspect.PlaceQueue, v.stock.paused...)
	v.s.awaitPlace(inspect.PlaceQuarantined, v.stock.quarantined...)
}

// fresh pushes jobs that fail, and waits until they are in the set of retries or the dead set.
func (v *visit) fresh(n int, act string) []string {
	v.t.Helper()
	jids := v.s.many(n, "Fresh", "live", []any{"again", act})
	v.s.awaitPlace(map[string]inspect.Place{"fails": inspect.PlaceRetry, "kills": inspect.PlaceDead}[act], jids...)
	return jids
}

func (v *visit) retries() {
	rest := slices.Clone(v.stock.retries)
	take := func(n int) (taken []string) { taken, rest = rest[:n], rest[n:]; return taken }
	v.s.set(v.s.mended, true)
	list := v.first + "retries?count=500"
	press := func(name string, jids ...string) {
		v.t.Helper()
		v.open(list)
		v.tick(jids...)
		v.send(v.submit("/retries", name))
	}
	single, several, deleted, killed := take(1), take(2), take(2), take(2)
	press("retry", single...)
	v.s.awaitRuns(single...)
	press("retry", several...)
	v.s.awaitRuns(several...)
	press("delete", deleted...)
	v.s.awaitPlace(inspect.PlaceNotFound, deleted...)
	v.s.deleted(deleted...)
	press("kill", killed...)
	v.s.awaitPlace(inspect.PlaceDead, killed...)
	v.stock.dead = append(v.stock.dead, killed...)

	single = take(1)
	v.send(v.submit(v.openJob("retries", single[0]), "retry"))
	v.s.awaitRuns(single...)
	single = take(1)
	v.send(v.submit(v.openJob("retries", single[0]), "delete"))
	v.s.awaitPlace(inspect.PlaceNotFound, single...)
	v.s.deleted(single...)

	require.Equal(v.t, len(rest), v.s.size("retries", ""))
	v.open(v.first + "retries")
	v.send(v.submit("/retries/all/retry", "retry"))
	v.s.awaitRuns(rest...)
	require.Zero(v.t, v.s.size("retries", ""))
	v.s.set(v.s.mended, false)

	killed = v.fresh(30, "fails")
	v.open(v.first + "retries")
	v.send(v.submit("/retries/all/kill", "kill"))
	v.s.awaitPlace(inspect.PlaceDead, killed...)
	v.stock.dead = append(v.stock.dead, killed...)
	deleted = v.fresh(3, "fails")
	v.open(v.first + "retries")
	v.send(v.submit("/retries/all/delete", "delete"))
	v.s.awaitPlace(inspect.PlaceNotFound, deleted...)
	v.s.deleted(deleted...)
	require.Zero(v.t, v.s.size("retries", ""))
	require.Contains(v.t, v.text(), "No retries were found")
}

func (v *visit) scheduled() {
	rest := slices.Clone(v.stock.scheduled)
	take := func(n int) (taken []string) { taken, rest = rest[:n], rest[n:]; return taken }
	now, deleted := take(2), take(2)
	v.open(v.first + "scheduled?count=500")
	v.tick(now...)
	v.send(v.submit("/scheduled", "add_to_queue"))
	v.s.awaitRuns(now...)
	v.open(v.first + "scheduled?count=500")
	v.tick(deleted...)
	v.send(v.submit("/scheduled", "delete"))
	now = take(1)
	v.send(v.submit(v.openJob("scheduled", now[0]), "add_to_queue"))
	v.s.awaitRuns(now...)
	last := take(1)
	v.send(v.submit(v.openJob("scheduled", last[0]), "delete"))
	deleted = append(deleted, last...)
	v.s.awaitPlace(inspect.PlaceNotFound, deleted...)
	v.s.deleted(deleted...)
	v.s.awaitPlace(inspect.PlaceScheduled, rest...)
}

func (v *visit) dead() {
	rest := slices.Clone(v.stock.dead)
	take := func(n int) (taken []string) { taken, rest = rest[:n], rest[n:]; return taken }
	v.s.set(v.s.mended, true)
	list := v.first + "morgue?count=500"
	now, deleted := take(2), take(2)
	v.open(list)
	v.tick(now...)
	v.send(v.submit("/morgue", "retry"))
	v.s.awaitRuns(now...)
	v.open(list)
	v.tick(deleted...)
	v.send(v.submit("/morgue", "delete"))
	now = take(1)
	v.send(v.submit(v.openJob("morgue", now[0]), "retry"))
	v.s.awaitRuns(now...)
	last := take(1)
	v.send(v.submit(v.openJob("morgue", last[0]), "delete"))
	deleted = append(deleted, last...)
	v.s.awaitPlace(inspect.PlaceNotFound, deleted...)
	v.s.deleted(deleted...)

	// What no worker can read dies again when it is retried. Sidekiq 6 retries all until the set is empty, so only
	// one of these is left in it.
	v.open(list)
	v.tick(eval[[]string](v.tab, "[...document.querySelectorAll('input[name=\"key[]\"]')].filter(box => box.closest('tr').innerText"+
		".includes('Belay::Unreadable')).slice(1).map(box => box.value.split('-')[1])")...)
	v.send(v.submit("/morgue", "delete"))
	require.Equal(v.t, len(rest)+1, v.s.size("dead", ""))
	v.open(v.first + "morgue")
	v.send(v.submit("/morgue/all/retry", "retry"))
	v.s.awaitRuns(rest...)
	eventually(v.t, "the unreadable entry to be dead again", func() bool { return v.s.size("dead", "") == 1 })
	v.s.set(v.s.mended, false)
	deleted = v.fresh(3, "kills")
	v.open(v.first + "morgue")
	v.send(v.submit("/morgue/all/delete", "delete"))
	v.s.awaitPlace(inspect.PlaceNotFound, deleted...)
	v.s.deleted(deleted...)
	require.Zero(v.t, v.s.size("dead", ""))
	require.Contains(v.t, v.text(), "No dead jobs were found")
}

// Without belay.rb, the lock of a job that these pages delete or kill stays until it expires; with it, it is
// released.
func (v *visit) locks() {
	for _, with := range []bool{false, true} {
		first := v.first
		if !with {
			first = v.s.sidekiqWeb(false)
		}
		in := *v
		in.first = first
		rule := belay.Unique(belay.UntilExecuted, belay.UniqueOpts{IncludingScheduled: true, TTL: hours})
		queue, later := v.s.push("Locked", "locks", []any{1}, rule), v.s.push("Locked", "locks", []any{2}, rule, belay.In(hours))
		failed := v.s.push("Locked", "live", []any{"once", "fails"}, rule)
		killed := v.s.push("Locked", "live", []any{"twice", "fails"}, rule)
		v.s.awaitPlace(inspect.PlaceRetry, failed, killed)
		in.open(first + "queues/locks")
		in.send(fmt.Sprintf("document.querySelector(%q)", fmt.Sprintf("tr[title='%s'] [type=submit][name=delete]", queue)))
		in.send(in.submit(in.openJob("scheduled", later), "delete"))
		in.send(in.submit(in.openJob("retries", failed), "delete"))
		in.open(first + "retries?count=500")
		in.tick(killed)
		in.send(in.submit("/retries", "kill"))
		v.s.awaitPlace(inspect.PlaceNotFound, queue, later, failed)
		v.s.awaitPlace(inspect.PlaceDead, killed)
		v.s.deleted(queue, later, failed)
		holders := map[string]bool{}
		for lock, err := range v.s.inspector.Locks(v.t.Context()) {
			require.NoError(v.t, err)
			holders[lock.JID] = true
			if slices.Contains([]string{queue, later, failed, killed}, lock.JID) {
				require.Positive(v.t, lock.TTL.Duration, "the lock expires")
				_, ok, err := v.s.inspector.ReleaseLock(v.t.Context(), lock.Digest)
				require.NoError(v.t, err)
				require.True(v.t, ok)
			}
		}
		for _, jid := range []string{queue, later, failed, killed} {
			require.Equal(v.t, !with, holders[jid], "the lock of %s, with belay.rb: %v", jid, with)
		}
	}
}

// processButton is an expression for a button of a process.
func processButton(p *inspect.Process, name string) string {
	return fmt.Sprintf("document.querySelector(%q)", fmt.Sprintf("form:has(input[value=%q]) button[name=%s]", p.Identity, name))
}

func (v *visit) processes() {
	a := v.s.process("worker-a")
	v.s.worker("worker-c")
	all := func(name string) string {
		return fmt.Sprintf("document.querySelector(%q)", "form.warning-messages button[name="+name+"]")
	}
	quiet := func(name string) func() bool {
		return func() bool { p := v.s.process(name); return p != nil && p.Quiet }
	}
	running := slices.Concat(v.stock.held, v.stock.imports)
	v.s.awaitPlace(inspect.PlaceRunning, running...)
	v.open(v.first + "busy")
	v.send(processButton(a, "quiet"))
	eventually(v.t, "worker-a to be quiet", quiet("worker-a"))
	require.False(v.t, quiet("worker-b")())
	v.open(v.first + "busy")
	v.picture("sidekiq-busy-with-a-quiet-process")
	require.False(v.t, eval[bool](v.tab, "!!"+processButton(a, "quiet")), "a quiet process has no such button")
	v.s.awaitPlace(inspect.PlaceRunning, running...)
	v.send(processButton(a, "stop"))
	v.s.awaitExit("worker-a")
	v.s.awaitPlace(inspect.PlaceRunning, running...)

	v.open(v.first + "busy")
	v.send(all("quiet"))
	eventually(v.t, "all to be quiet", func() bool { return quiet("worker-b")() && quiet("worker-c")() })
	waits := v.s.push("Quick", "live", nil)
	v.open(v.first + "busy")
	v.send(all("stop"))
	v.s.awaitExit("worker-b")
	v.s.awaitExit("worker-c")
	v.s.awaitPlace(inspect.PlaceQueue, append(running, waits)...)
	v.open(v.first + "busy")
	v.picture("sidekiq-busy-without-processes")

	v.s.set(v.s.gate, true)
	v.s.set(v.s.mended, true)
	v.s.worker("worker-d")
	v.s.awaitRuns(append(running, waits)...)
}
