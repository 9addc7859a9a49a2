package browser

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// A sight is one page of a kind.
type sight struct {
	at      string
	kind    string // the address without what differs from job to job
	buttons []string
}

// kindOf returns what a page is one of: its path, and the fields of its query that choose what it shows. Pages
// of a job differ by the list that leads to them.
func kindOf(address, from string) string {
	at, err := url.Parse(address)
	if err != nil {
		return address
	}
	kind := at.Path
	for _, field := range slices.Sorted(maps.Keys(at.Query())) {
		switch field {
		case "in", "do", "sort", "range", "rows", "window":
			kind += " " + field + "=" + at.Query().Get(field)
		case "name", "jid", "queue", "ref", "bid":
		default:
			kind += " " + field
		}
	}
	if at.Path == "/job" {
		kind += " from " + from
	}
	return cmp.Or(strings.TrimPrefix(kind, "/"), "overview")
}

const (
	// maxOfKind bounds the pages of a kind that are visited, except for the pages of queues.
	maxOfKind = 2
	maxQueues = 12
	maxPages  = 200
)

// walk follows every link from the first page on, and returns a page of each kind.
func walk(b *tab, first string) []sight {
	type step struct{ at, from string }
	todo, met, seen := []step{{first, ""}}, map[string]int{}, map[string]bool{}
	var sights []sight
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		kind := kindOf(next.at, next.from)
		most := maxOfKind
		if kind == "queue" {
			most = maxQueues
		}
		if seen[next.at] || met[kind] == most {
			continue
		}
		seen[next.at] = true
		met[kind]++
		require.Less(b.t, len(seen), maxPages, "the walk does not end")
		b.open(next.at)
		require.Empty(b.t, b.takeProblems(), "on %s", next.at)
		require.Empty(b.t, eval[[]string](b, "testing.unnamed()"), "controls without a name on %s", next.at)
		sights = append(sights, sight{next.at, kind, eval[[]string](b, "testing.buttons()")})
		from, err := url.Parse(next.at)
		require.NoError(b.t, err)
		for _, to := range eval[[]string](b, "testing.links()") {
			to, _, _ = strings.Cut(to, "#")
			todo = append(todo, step{to, strings.TrimPrefix(from.Path, "/")})
		}
	}
	return sights
}

// pictured chooses the pages to look at: one of each kind, without those that differ only in their order.
func pictured(sights []sight) []sight {
	taken := map[string]bool{}
	var chosen []sight
	for _, s := range sights {
		plain := !strings.Contains(s.kind, "page") && !strings.Contains(s.kind, "sort=") && !strings.Contains(s.kind, "range=now")
		if strings.HasPrefix(s.kind, "confirm") {
			plain = strings.Contains(s.kind, "in=retries") || strings.Contains(s.kind, "do=move")
		}
		name := nameOf(s.kind)
		if s.kind == "queue" {
			if at, err := url.Parse(s.at); err == nil {
				name = nameOf("queue " + at.Query().Get("name"))
			}
		}
		if plain && !taken[name] {
			taken[name] = true
			chosen = append(chosen, sight{s.at, name, s.buttons})
		}
	}
	// The plots have something to show when the rest has been seen.
	slices.SortStableFunc(chosen, func(a, b sight) int { return cmp.Compare(plots(a), plots(b)) })
	return chosen
}

func plots(s sight) int {
	if s.kind == "overview" || strings.HasPrefix(s.kind, "range") {
		return 1
	}
	return 0
}

// inspectPage looks at the page that is open: the contrast of its texts, what is cut off, what does not fit.
func inspectPage(b *tab) (problems []string) {
	for _, pale := range eval[[]string](b, "testing.pale(4.5)") {
		problems = append(problems, "contrast "+pale)
	}
	for _, cut := range eval[[]string](b, "testing.cut()") {
		problems = append(problems, "cut off: "+cut)
	}
	for _, wide := range eval[[]string](b, "testing.wide()") {
		problems = append(problems, "too wide: "+wide)
	}
	return problems
}

// tabThrough presses Tab through a page.
func tabThrough(b *tab) []string {
	n := eval[int](b, "testing.expect()")
	for range n {
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	return eval[[]string](b, "testing.way()")
}

// view opens pages in both schemes and both widths, inspects them, and takes a picture of each.
func view(b *tab, sights []sight, prefix string) {
	var problems []string
	for _, width := range []int64{1280, 390} {
		b.size(width)
		for _, s := range sights {
			b.open(s.at)
			b.until("the plots", "!document.querySelector('[data-plots]') || document.querySelectorAll('.uplot').length === document.querySelectorAll('[data-plot]').length")
			for _, scheme := range []string{"light", "dark"} {
				b.prefer(scheme)
				name := fmt.Sprintf("%s%s-%d-%s", prefix, s.kind, width, scheme)
				for _, problem := range inspectPage(b) {
					problems = append(problems, name+": "+problem)
				}
				b.picture(name)
			}
			for _, problem := range tabThrough(b) {
				problems = append(problems, fmt.Sprintf("%s%s-%d: %s", prefix, s.kind, width, problem))
			}
		}
	}
	b.size(1280)
	b.prefer("light")
	require.Empty(b.t, strings.Join(problems, "\n"))
	require.Empty(b.t, b.takeProblems())
}

// stock fills a Redis with jobs in all states, and starts workers.
func stock(s *site, jobs int) {
	for _, queue := range queues {
		s.fill("queue", queue, jobs/6)
	}
	s.fill("queue", "imports, old", jobs/100)
	s.fill("quarantined", "imports", max(jobs/1000, 40))
	s.fill("retries", "", jobs/5)
	s.fill("scheduled", "", jobs/10)
	s.fill("dead", "", jobs/5)
	for n := range 5 {
		s.belay("push", "Reindex", fmt.Sprint(n), "-q", "mail", "--unique", "until_executed", "--unique-ttl", "2h")
	}
	for _, words := range [][]string{
		{"nightly", "0 3 * * *", "Quick", `"all"`, "-q", "live", "--zone", "Europe/Berlin"}, {"weekly", "@weekly", "Quick", "-q", "live"},
		{"sync", "@every 2s", "Quick", "-q", "live", "--catch-up", "skip"}, {"slow", "@every 1s", "Long", "-q", "long"},
		{"paused", "*/5 9-17 * * 1-5", "Billing::Invoices::ImportFromSpreadsheetJob", "-q", "live", "--zone", "America/Argentina/Buenos_Aires"},
	} {
		s.belay(append([]string{"periodic", "add"}, words...)...)
	}
	s.belay("periodic", "pause", "paused")
	s.batches()
	s.limits()
	s.work("worker-a")
	s.work("worker-b")
	s.feed()
	eventually(s.t, "running jobs", func() bool { return s.status().Processed > 3 })
}

// Chromium follows every link of the dashboard on a full Redis, and presses every button.
func TestDashboard(t *testing.T) {
	s := newSite(t)
	stock(s, jobs)
	_, first := s.serve(s.redis.URL(), drivertest.FreeAddr(t))
	b := newTab(t)
	sights := walk(b, first)
	t.Logf("%d pages of %d kinds", len(sights), len(pictured(sights)))
	t.Run("looks", func(t *testing.T) {
		b.t, s.t = t, t
		view(b, pictured(sights), "")
	})
	t.Run("without scripts", func(t *testing.T) {
		b.t, s.t = t, t
		withoutScripts(b, s, first)
	})
	t.Run("buttons", func(t *testing.T) {
		b.t, s.t = t, t
		pressed := pressAll(b, s, first)
		require.Empty(t, b.takeProblems())
		for _, sight := range sights {
			for _, button := range sight.buttons {
				require.True(t, pressed[button], "nothing presses %q of %s, and checks what it did", button, sight.at)
			}
		}
	})
}

// withoutScripts uses the dashboard with JavaScript switched off: a selection, and the steps of a question.
func withoutScripts(b *tab, s *site, first string) {
	b.scripts(false)
	defer b.scripts(true)
	for _, page := range []string{"", "busy", "queues", "queue?name=mail", "scheduled", "retries", "dead", "completed", "periodic", "batches", "batch?bid=import-42", "limits", "limit?name=webhooks", gatePage, "locks", "classes", "redis"} {
		b.open(first + page)
		require.False(b.t, eval[bool](b, "!document.querySelector('h1') || !document.getElementById('live').hidden"), "no script ran on %q", page)
	}
	b.open(first + "retries")
	before := s.count()
	b.click("document.querySelector('form.jobs tbody input[type=checkbox]')")
	b.send(button("form.jobs", "retry"))
	b.until("the answer", "document.getElementById('flash')")
	require.Contains(b.t, eval[string](b, "document.getElementById('flash').textContent"), "Retried: 1 job.")
	require.Equal(b.t, before["retries"]-1, s.count()["retries"])
	b.send("document.querySelector(\"a.button[href*='do=kill']\")")
	b.send(button("form.bar", "kill"))
	for s.size("retries", "") > 0 { // each step needs a press
		b.send("document.querySelector('form[data-continue] button')")
	}
	require.Equal(b.t, before["dead"]+before["retries"]-1, s.count()["dead"])
	require.Empty(b.t, b.takeProblems())
}

// The checks of a page find what they look for.
func TestTheChecksOfPagesFindFaults(t *testing.T) {
	b := newTab(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", "script-src 'self'; style-src 'unsafe-inline'")
		_, _ = w.Write([]byte(faulty))
	}))
	defer server.Close()
	b.size(390)
	b.open(server.URL)
	problems := strings.Join(b.takeProblems(), "\n")
	require.Contains(t, problems, "Content Security Policy")
	require.Contains(t, problems, "status 404")
	require.Len(t, eval[[]string](b, "testing.unnamed()"), 3)
	require.Len(t, eval[[]string](b, "testing.pale(4.5)"), 2)
	require.NotEmpty(t, eval[[]string](b, "testing.wide()"))
	require.NotEmpty(t, eval[[]string](b, "testing.cut()"))
	_, err := try[[]float64](b, "testing.middle(document.getElementById('covered'))")
	require.ErrorContains(t, err, "cannot be pressed")
	way := strings.Join(tabThrough(b), "\n")
	require.Contains(t, way, "stands above")
	require.Contains(t, way, "Tab misses")
}

const faulty = `<!doctype html><meta name="viewport" content="width=device-width"><body style="background:#fff">
<script>1</script><img src="missing.png">
<p style="color:#888">Too pale on white: 3.5 to 1.</p><p style="opacity:0.4">Too pale by its opacity.</p><p style="color:#666">Good.</p>
<input name="a" placeholder="no name"><button></button><meter value="1"></meter>
<div style="width:900px">Too wide.</div><h2 style="width:20px;overflow:hidden">Cut off</h2>
<div style="position:relative"><a id="covered" href="x">under</a><b style="position:absolute;inset:0;background:#fff">over</b></div>
<div style="display:flex;flex-direction:column-reverse"><a href="y">lower</a><a href="z">upper</a></div>
<a href="w" id="inert" inert>not reached</a>`
