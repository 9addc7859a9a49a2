package browser

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// refresh makes an open page refresh itself, and waits until it has.
func (b *tab) refresh() {
	b.t.Helper()
	eval[bool](b, `(window.refreshed = false, document.addEventListener("belay:fresh", () => { window.refreshed = true }, { once: true }),
		document.dispatchEvent(new Event("visibilitychange")), true)`)
	b.until("a refresh", "window.refreshed")
}

// An open page shows what begins after it was opened, without a reload.
func TestAnOpenPageShowsWhatBegins(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, at := s.serve(s.redis.URL(), drivertest.FreeAddr(t))
	b := newTab(t)
	// stays marks the page, so that a reload is seen.
	opened := func(page string) {
		b.open(at + page)
		eval[bool](b, "window.stays = true")
	}
	text := func(of string) string {
		return eval[string](b, fmt.Sprintf("testing.clean(document.querySelector(%q)?.textContent)", of))
	}

	opened("")
	require.Contains(t, text("#main"), "This page shows the first ones as soon as they appear.")
	s.fill("queue", "mail", 3)
	b.until("the first jobs", `document.querySelector("#stats") && document.querySelectorAll(".uplot").length === 3`)
	require.NotContains(t, text("#main"), "no jobs and no workers yet")
	require.Contains(t, text("#top-queues"), "mail")

	opened("queue?name=mail")
	require.Equal(t, 3, eval[int](b, "document.querySelectorAll('#jobs-queue tbody tr').length"))
	require.Empty(t, text(".pager"))
	eval[bool](b, `(document.querySelector("#filter [name=text]").value = "typed", true)`)
	s.fill("queue", "mail", 1000)
	s.fill("quarantined", "mail", 1)
	b.until("the pager", `document.querySelector(".pager")`)
	require.Contains(t, text(".pager"), "1–25 of 1,003")
	require.Equal(t, 1, eval[int](b, "document.querySelectorAll('#jobs-quarantined tbody tr').length"))
	s.fill("queue", "mail", 1)
	b.refresh()
	require.Contains(t, text(".pager"), "1–25 of 1,004", "the pager is fresh")
	s.do("DEL", s.keys.Queue("mail"), s.keys.Quarantine("mail"))
	b.until("the empty queue", `document.querySelector("#main").textContent.includes("The queue is empty.")`)
	require.Empty(t, text(".pager"))
	require.Empty(t, text("#jobs-quarantined"), "a job that is gone is not shown")
	require.Equal(t, "typed", eval[string](b, `document.querySelector("#filter [name=text]").value`), "nobody types in vain")
	s.fill("queue", "mail", 2)
	b.until("new jobs", `document.querySelectorAll("#jobs-queue tbody tr").length === 2`)
	require.True(t, eval[bool](b, `!!(document.querySelector("#filter").compareDocumentPosition(document.querySelector("#jobs-queue")) & Node.DOCUMENT_POSITION_FOLLOWING)`))

	opened("retries")
	s.fill("retries", "", 4)
	b.until("the failed jobs", `document.querySelector("#groups") && document.querySelector("#filter") && document.querySelectorAll("#jobs-retries tbody tr").length === 4`)

	opened("classes")
	s.belay("classes", "pause", "Report")
	b.until("the rule", `document.querySelector("#rules")?.textContent.includes("Report")`)

	opened("busy")
	require.Contains(t, text("#main"), "No worker is running.")
	s.work("worker")
	s.do("SADD", s.keys.Queues(), "long")
	s.do("LPUSH", s.keys.Queue("long"), `{"class":"Long","args":["an argument"],"jid":"runs","queue":"long","retry":true}`)
	b.until("the running job", `document.querySelector("#runs tbody tr")?.textContent.includes("an argument")`)

	require.True(t, eval[bool](b, "window.stays"), "nothing was loaded again")
	require.Empty(t, b.takeProblems())
}

// Rows above a row come and go, and it keeps the focus and the selection.
func TestARowKeepsTheFocusAndTheSelection(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, at := s.serve(s.redis.URL(), drivertest.FreeAddr(t))
	b := newTab(t)
	job := func(n int) string {
		return fmt.Sprintf(`{"class":"Job%d","args":[],"jid":"job-%d","queue":"mail","retry":true,"error_message":"it failed"}`, n, n)
	}
	for n := range 6 {
		s.do("ZADD", s.keys.Retry(), fmt.Sprint(9000000000+60*n), job(n))
	}
	b.open(at + "retries")
	row := func(n int) string {
		return fmt.Sprintf(`[...document.querySelectorAll("#jobs-retries tbody tr")].find(row => row.textContent.includes("Job%d"))`, n)
	}
	eval[bool](b, `(`+row(3)+`.querySelector("a").focus(), getSelection().selectAllChildren(`+row(4)+`.querySelector("strong")), true)`)
	both := func(why string) {
		t.Helper()
		require.True(t, eval[bool](b, row(3)+`.contains(document.activeElement)`), "the focus stays when %s", why)
		require.Equal(t, "Job4", eval[string](b, "getSelection().toString()"), "the selection stays when %s", why)
	}
	both("nothing happens")
	s.do("ZREM", s.keys.Retry(), job(0))
	b.refresh()
	require.Equal(t, 5, eval[int](b, "document.querySelectorAll('#jobs-retries tbody tr').length"))
	both("the first row leaves")
	s.do("ZADD", s.keys.Retry(), "8999999999", job(7))
	b.refresh()
	require.Equal(t, "Job7", eval[string](b, "document.querySelector('#jobs-retries tbody strong').textContent"))
	both("a row comes above it")
	s.do("ZADD", s.keys.Retry(), "9000009999", job(1), "9000009998", job(7))
	b.refresh()
	require.Equal(t, "Job2", eval[string](b, "document.querySelector('#jobs-retries tbody strong').textContent"))
	both("rows above it go to the end")
	require.Empty(t, b.takeProblems())
}

// The page of a running job follows it to its end.
func TestThePageOfARunningJobIsLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, at := s.serve(s.redis.URL(), drivertest.FreeAddr(t))
	b := newTab(t)
	s.work("worker")
	s.do("SADD", s.keys.Queues(), "long")
	s.do("LPUSH", s.keys.Queue("long"), `{"class":"Long","args":["an argument"],"jid":"runs","queue":"long","retry":true}`)
	eventually(t, "the run", func() bool { return s.find("runs").Process != "" })
	b.open(at + "job?jid=runs")
	shown := func(text string) string {
		return fmt.Sprintf("document.getElementById('job').textContent.includes(%q)", text)
	}
	require.True(t, eval[bool](b, shown("an argument")))
	require.False(t, eval[bool](b, "document.getElementById('live').hidden"), "the page says that it is live")
	s.do("HSET", s.keys.Iteration("runs"), lua.FieldProgress, "3/4", lua.FieldState, string(lua.TrackRunning))
	b.until("its progress", shown("3 of 4"))
	require.True(t, eval[bool](b, shown("an argument")))
	s.belay("cancel", "runs")
	b.until("its end", shown("The job has left process "))
	require.Empty(t, b.takeProblems())
}

// A page says that what it shows is gone, and stops.
func TestAPageSaysThatItsBatchIsGone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, at := s.serve(s.redis.URL(), drivertest.FreeAddr(t))
	b := newTab(t)
	s.belay("batches", "new", "--id", "import-42", "--on-success", "Done")
	b.open(at + "batch?bid=import-42")
	s.belay("batches", "delete", "import-42")
	b.until("the note", `document.getElementById("gone")`)
	require.Contains(t, eval[string](b, `document.getElementById("gone").textContent`), "There is no batch import-42.")
	require.Equal(t, "Gone", eval[string](b, `document.querySelector("#live span").textContent`))
	b.takeProblems() // the status 404
	eval[bool](b, `(document.dispatchEvent(new Event("visibilitychange")), true)`)
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll("#gone").length`))
}
