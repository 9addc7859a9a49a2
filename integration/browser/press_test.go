package browser

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

// A press is what one test of a button needs.
type press struct {
	*tab
	s     *site
	first string // the address of the overview
	done  map[string]bool
}

// button returns an expression for a button by its form and its value.
func button(form, value string) string {
	return fmt.Sprintf("document.querySelector(%q)", form+" button[name=do][value="+value+"]")
}

// pressed remembers buttons of the page that is open, as walk names them.
func (p *press) pressed(what string) {
	p.t.Helper()
	require.Contains(p.t, eval[[]string](p.tab, "testing.buttons()"), what, "the page has no such button")
	p.done[what] = true
}

// said waits for the answer of an act, through any steps of it.
func (p *press) said(text string) {
	p.t.Helper()
	p.until(text, "document.getElementById('flash')")
	require.Contains(p.t, eval[string](p.tab, "testing.clean(document.getElementById('flash').textContent)"), text)
}

func (p *press) pageOf(in, queue string) string {
	if in == "waiting" {
		return p.first + gatePage
	}
	if queue != "" {
		return p.first + "queue?name=" + strings.ReplaceAll(queue, " ", "+")
	}
	return p.first + in
}

// expect checks that n jobs moved from one place to another, and none else.
func (p *press) expect(before census, act, in string, n int) {
	p.t.Helper()
	want := census{}
	for place, size := range before {
		want[place] = size
	}
	if act != "reschedule" && act != "move" {
		want[in] -= n
	}
	if in == "waiting" && act == "move" {
		want[in] -= n
		want["queue"] += n
	}
	if to := map[string]string{"retry": "queue", "kill": "dead"}[act]; to != "" {
		want[to] += n
	}
	require.Equal(p.t, want, p.s.count(), "%s of %d jobs in %s", act, n, in)
}

// landed checks where a job is after an act.
func (p *press) landed(jid, act, in string) {
	p.t.Helper()
	want := map[string]inspect.Place{
		"retry": inspect.PlaceQueue, "kill": inspect.PlaceDead, "delete": inspect.PlaceNotFound, "cancel": inspect.PlaceNotFound,
	}[act]
	if want == "" {
		want = map[string]inspect.Place{"retries": inspect.PlaceRetry, "scheduled": inspect.PlaceScheduled}[in]
	}
	require.Equal(p.t, want, p.s.find(jid).Place, "%s of %s in %s", act, jid, in)
}

var answers = map[string]string{
	"retry": "Retried: %s", "kill": "Killed: %s", "delete": "Deleted: %s", "move": "Moved: %s", "reschedule": "Rescheduled: %s",
}

// effects are what the questions before an act say that it does. Other acts ask nothing.
var effects = map[string]string{
	"kill":   "Killed jobs go to the dead set, and run only if they are retried from there. Their locks are released.",
	"delete": "Deleted jobs are gone for good. Their locks are released.",
	"cancel": "Cancelled jobs that wait are removed. A job that runs is stopped, and not retried.",
}

// question is what a page asks before an act.
func question(act, what string) string {
	return strings.ToUpper(act[:1]) + act[1:] + " " + what + "? " + effects[act]
}

// answer is what a page says after an act on n jobs.
func answer(act string, n int) string {
	switch {
	case act != "cancel":
		return fmt.Sprintf(answers[act], plural(n))
	case n == 1:
		return "Removed: the job waited, and will not run."
	}
	return fmt.Sprintf("Cancelled %d jobs: %d removed.", n, n)
}

// routeOf is where a button for an act on jobs leads.
func routeOf(act string) string {
	if act == "cancel" {
		return "/cancel"
	}
	return "/act"
}

func plural(n int) string {
	if n == 1 {
		return "1 job."
	}
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text + " jobs."
}

// atLeast fills a place up to n jobs.
func (p *press) atLeast(in, queue string, n int) {
	p.t.Helper()
	if have := p.s.size(in, queue); have < n {
		p.s.fill(in, queue, n-have)
	}
}

// openList opens the page of a place with jobs.
func (p *press) openList(in, queue string) {
	p.t.Helper()
	p.open(p.pageOf(in, queue))
	require.True(p.t, eval[bool](p.tab, fmt.Sprintf("!!document.querySelector(%q)", "#jobs-"+in+" tbody tr[data-key]")), "no jobs on the page")
}

// jidOf returns the jid of the job in a row that an expression finds.
func (p *press) jidOf(row string) string {
	p.t.Helper()
	return eval[string](p.tab, fmt.Sprintf("new URL(%s.querySelector('td.job a').href).searchParams.get('jid')", row))
}

// selected presses a button for two jobs of a list.
func (p *press) selected(in, queue, act string) {
	p.t.Helper()
	p.atLeast(in, queue, 30)
	p.openList(in, queue)
	form, before := "#jobs-"+in, p.s.count()
	require.True(p.t, eval[bool](p.tab, button(form, act)+".disabled"), "nothing is selected")
	boxes := fmt.Sprintf("document.querySelectorAll(%q)", form+" tbody input[type=checkbox]")
	jids := make([]string, 2)
	for n := range jids {
		jids[n] = p.jidOf(fmt.Sprintf("%s[%d].closest('tr')", boxes, n))
		p.click(fmt.Sprintf("%s[%d]", boxes, n))
	}
	p.until("the count on the button", button(form, act)+".textContent.endsWith(' 2')")
	p.pressed(fmt.Sprintf("%s post do=%s in=%s selected", routeOf(act), act, in))
	p.takeAsked()
	if effects[act] != "" {
		p.refuse(true)
		p.click(button(form, act))
		eventually(p.t, "the question", func() bool { return slices.Equal(p.takeAsked(), []string{question(act, "2 selected jobs")}) })
		p.refuse(false)
		p.expect(before, act, in, 0)
	}
	p.send(button(form, act))
	p.said(answer(act, 2))
	p.expect(before, act, in, 2)
	for _, jid := range jids {
		p.landed(jid, act, in)
	}
}

// single presses a button on the page of a job.
func (p *press) single(in, queue, act string) {
	p.t.Helper()
	p.atLeast(in, queue, 30)
	p.openList(in, queue)
	jid := p.jidOf(fmt.Sprintf("document.querySelector(%q)", "#jobs-"+in+" tbody tr"))
	p.send(fmt.Sprintf("document.querySelector(%q)", "#jobs-"+in+" tbody td.job a"))
	before, due := p.s.count(), time.Time{}
	p.pressed(fmt.Sprintf("%s post do=%s in=%s", routeOf(act), act, in))
	p.takeAsked()
	if effects[act] != "" {
		p.refuse(true)
		p.click(button("form.bar", act))
		eventually(p.t, "the question", func() bool { return slices.Equal(p.takeAsked(), []string{question(act, "this job")}) })
		p.refuse(false)
		p.expect(before, act, in, 0)
	}
	if act == "reschedule" {
		delay := time.Duration(eval[int](p.tab, "Number(document.querySelector('select[name=delay]').value)")) * time.Second
		due = p.s.find(jid).At.Add(delay)
		require.True(p.t, due.After(time.Now().Add(delay)), "the job is due later, so that a delay from now would bring it forward")
	}
	p.send(button("form.bar", act))
	p.said(answer(act, 1))
	p.expect(before, act, in, 1)
	p.landed(jid, act, in)
	if act == "reschedule" {
		require.WithinDuration(p.t, due, p.s.find(jid).At, time.Second)
	}
}

func (b *tab) refuse(questions bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.dismiss = questions
}

// all presses a button for all jobs of a place, of which there are some hundred at least.
func (p *press) all(in, queue, act string) {
	p.t.Helper()
	p.atLeast(in, queue, 300)
	p.openList(in, queue)
	before, n := p.s.count(), p.s.size(in, queue)
	p.send(fmt.Sprintf("document.querySelector(%q)", fmt.Sprintf("a.button[href^='confirm?in=%s&'][href*='do=%s']", in, act)))
	if act == "move" {
		p.click("document.querySelector('input[name=to]')")
		eval[bool](p.tab, "!!(document.querySelector('input[name=to]').value = 'elsewhere')")
	}
	if act == "reschedule" { // to a time after that of all jobs: others stay
		eval[bool](p.tab, "!!(document.querySelector('select[name=delay]').value = 7 * 24 * 3600)")
	}
	p.pressed(fmt.Sprintf("/act post do=%s in=%s all", act, in))
	p.send(button("form.bar", act))
	p.said(answer(act, n))
	p.expect(before, act, in, n)
	stay := act == "reschedule" || act == "move" && queue == ""
	if !stay {
		require.Zero(p.t, p.s.size(in, queue))
	}
	if act == "move" {
		if in == "waiting" {
			in = "queue"
		}
		require.GreaterOrEqual(p.t, p.s.size(in, "elsewhere"), n, "quarantined jobs stay quarantined")
		for entry, err := range p.s.inspector.Entries(p.t.Context(), homeOf(in, "elsewhere"), 0) {
			require.NoError(p.t, err)
			require.Equal(p.t, "elsewhere", entry.Queue)
		}
	}
}

// pressAll presses every button, and checks what it did.
func pressAll(b *tab, s *site, first string) map[string]bool {
	p := &press{b, s, first, map[string]bool{}}
	for _, place := range []struct {
		in, queue string
		acts      []string
		unlisted  []string // acts without a button for selected jobs
	}{
		{"retries", "", []string{"retry", "kill", "delete"}, []string{"reschedule", "move"}},
		{"scheduled", "", []string{"retry", "kill", "delete"}, []string{"reschedule", "move"}},
		{"quarantined", "imports", []string{"retry", "kill", "delete"}, []string{"move"}},
		{"queue", "imports, old", []string{"kill", "delete"}, []string{"move"}},
		{"waiting", gate, []string{"kill", "delete"}, []string{"move"}},
		{"dead", "", []string{"retry", "delete"}, []string{"move"}},
	} {
		listed := place.acts
		if place.in != "dead" {
			listed = append([]string{"cancel"}, listed...)
		}
		for _, act := range listed {
			p.selected(place.in, place.queue, act)
			p.single(place.in, place.queue, act)
		}
		for _, act := range place.unlisted {
			if act == "reschedule" {
				p.single(place.in, place.queue, act)
			}
		}
		for _, act := range append(place.unlisted, place.acts...) {
			p.all(place.in, place.queue, act)
		}
	}
	p.queues()
	p.periodic()
	p.batches()
	p.running()
	p.locks()
	p.searches()
	p.limits()
	p.classes()
	p.completed()
	p.browser()
	p.processes()
	return p.done
}

func (p *press) queues() {
	paused := func(queue string) bool {
		for _, q := range p.s.status().Queues {
			if q.Name == queue {
				return q.Paused
			}
		}
		return false
	}
	row := `tr[data-key="reports"]`
	for _, page := range []struct{ at, form string }{{"queues", row}, {"queue?name=reports", "#queue"}} {
		for _, act := range []string{"pause", "resume"} {
			p.open(p.first + page.at)
			p.pressed("/queue post do=" + act)
			p.send(button(page.form, act))
			p.said(map[string]string{"pause": "Queue reports is paused.", "resume": "Queue reports is resumed."}[act])
			require.Equal(p.t, act == "pause", paused("reports"))
		}
	}
}

// periodic presses the buttons of periodic jobs, in the list and on the page of one.
func (p *press) periodic() {
	periodicOf := func(name string) *inspect.Periodic {
		all, err := p.s.inspector.Periodic(p.t.Context())
		require.NoError(p.t, err)
		for _, entry := range all {
			if entry.Name == name {
				return &entry
			}
		}
		return nil
	}
	for _, page := range []struct{ at, form, name string }{
		{"periodic", `tr[data-key="nightly"] form`, "nightly"}, {"history?name=weekly", "form.bar", "weekly"},
	} {
		press := func(act, text string) {
			p.open(p.first + page.at)
			p.pressed("/periodic post do=" + act)
			p.takeAsked()
			p.send(button(page.form, act))
			require.Equal(p.t, act == "remove", slices.Equal(p.takeAsked(), []string{"Remove this periodic job?"}))
			p.said(text)
		}
		press("pause", page.name+" is paused: its ticks pass.")
		require.True(p.t, periodicOf(page.name).Paused)
		press("resume", page.name+" is resumed: ticks count from now on.")
		require.False(p.t, periodicOf(page.name).Paused)
		press("run", "Enqueued the job ")
		require.NotNil(p.t, periodicOf(page.name).LastRun)
		press("remove", page.name+" is removed.")
		require.Nil(p.t, periodicOf(page.name))
	}
}

// batches presses the buttons of a batch.
func (p *press) batches() {
	press := func(act, question, text string) (b inspect.Batch, found bool) {
		p.open(p.first + "batch?bid=import-42")
		p.act("/batches", "form.bar", act, question, text)
		b, found, err := p.s.inspector.Batch(p.t.Context(), "import-42")
		require.NoError(p.t, err)
		return b, found
	}
	b, _ := press("seal", "Seal this batch? Its program can push no more members.", "import-42 is sealed.")
	require.Equal(p.t, lua.BatchStateRunning, b.State)
	b, _ = press("invalidate", "Drop the members that have not started?", "import-42 is invalid: its members that have not started are dropped.")
	require.False(p.t, b.InvalidAt.IsZero())
	_, found := press("remove", "Delete this batch? Its jobs stay, and its callbacks are never called.", "import-42 is deleted; its jobs stay.")
	require.False(p.t, found)
	require.Equal(p.t, inspect.PlaceQueue, p.s.find("row-42-0").Place)
}

// limits presses the buttons of a limit.
func (p *press) limits() {
	read := func() inspect.Limit {
		d, _, err := p.s.inspector.Limit(p.t.Context(), "webhooks", nil)
		require.NoError(p.t, err)
		return d.Limit
	}
	press := func(form, act, question, text string) { p.act("/limits", form, act, question, text) }
	p.open(p.first + "limits")
	p.pressed("/limits get check=1")
	p.send("document.querySelector('form[action=limits][method=get] button')")
	press("td.acts form", "repair", "Set the counts of this gate to the slots and admissions that there are?", gate+": 0 running (was 2), 0 admitted (was 0).")
	require.Zero(p.t, read().Running)
	page := p.first + "limit?name=webhooks"
	p.open(page)
	eval[bool](p.tab, "!!(document.getElementById('concurrency').value = '7')")
	eval[bool](p.tab, "!!(document.getElementById('rate').value = '100/1m')")
	press("form.bar", "set", "", "webhooks: concurrency 7, rate 100/1m.")
	require.Equal(p.t, []any{7, "100/1m"}, []any{*read().Concurrency, read().Rate})
	press("form.bar", "reset", "Give it the size of the programs again?", "webhooks gets the size of the programs within half a minute.")
	require.Equal(p.t, lua.LimitOfReset, read().Source)
	press("form.bar", "remove", "Remove this limit? Its waiting jobs start without it, unless a program declares it.",
		"webhooks is removed. A program that declares it stores it again.")
	require.Empty(p.t, read().Source)
}

// act presses a button, which asks this question unless it is empty, and reads what the page says then.
func (p *press) act(route, form, act, question, text string) {
	p.pressed(route + " post do=" + act)
	p.takeAsked()
	p.send(button(form, act))
	if question != "" {
		require.Equal(p.t, []string{question}, p.takeAsked())
	}
	p.said(text)
}

// classes presses the buttons of rules, for a class that no worker runs.
func (p *press) classes() {
	rule := func() string {
		rules, _, err := p.s.inspector.ClassRules(p.t.Context())
		require.NoError(p.t, err)
		for _, r := range rules {
			if r.Class == "Reports::Daily" {
				return fmt.Sprint(r.Rule, " ", r.Concurrency)
			}
		}
		return ""
	}
	press := func(form, act, question, text, want string) {
		p.open(p.first + "classes")
		eval[bool](p.tab, "!!(document.querySelector('#rule input[name=class]').value = 'Reports::Daily')")
		eval[bool](p.tab, "!!(document.querySelector('#rule input[name=concurrency]').value = '7')")
		p.act("/classes", form, act, question, text)
		require.Equal(p.t, want, rule())
	}
	press("#rule", "pause", "", "Reports::Daily is paused.", "pause 0")
	press("#rule", "limit", "", "Reports::Daily runs at most 7 at once.", "limit 7")
	press("#rule", "drop", "End all jobs of this class before they start? They are gone for good.",
		"Reports::Daily is dropped: its jobs end before they start.", "drop 0")
	press(`tr[data-key="Reports::Daily"] form`, "resume", "", "Reports::Daily is resumed: its waiting jobs go back to their queues.", "")
}

// running cancels jobs that run: in the list of all, and on the page of one.
func (p *press) running() {
	for n, at := range []string{"busy", fmt.Sprintf("job?jid=long%020x", 1)} {
		jid := fmt.Sprintf("long%020x", n)
		p.open(p.first + at)
		form := map[string]string{"busy": "td.acts form:has(input[value='" + jid + "'])"}[at]
		p.until("the job to run", fmt.Sprintf("document.querySelector(%q)", "button[name=do][value=cancel]"))
		p.pressed("/cancel post do=cancel")
		p.send(button(form, "cancel"))
		p.said("Stopping: a worker has the job.")
		eventually(p.t, "the end of "+jid, func() bool { return p.s.find(jid).Place == inspect.PlaceNotFound })
	}
}

func (p *press) locks() {
	p.open(p.first + "locks")
	count := func() (held int) { // periodic jobs have locks, too, which come and go
		for lock, err := range p.s.inspector.Locks(p.t.Context()) {
			require.NoError(p.t, err)
			if lock.Class == "Reindex" {
				held++
			}
		}
		return held
	}
	before := count()
	p.pressed("/locks get")
	eval[bool](p.tab, "!!(document.getElementById('class').value = 'Reindex')")
	p.send("document.querySelector('form[action=locks][method=get] button')")
	p.pressed("/locks post")
	p.send("document.querySelector('td.acts button')")
	p.said("Released;")
	require.Equal(p.t, before-1, count())
}

// searches presses the buttons that look for jobs.
func (p *press) searches() {
	p.s.fill("dead", "", 1)
	jid := fmt.Sprintf("%024x", p.s.last)
	p.open(p.first)
	p.pressed("/job get")
	eval[bool](p.tab, fmt.Sprintf("!!(document.getElementById('jid').value = %q)", jid))
	p.send("document.querySelector('form.find button')")
	p.until("the job", fmt.Sprintf("document.querySelector('p.jid').textContent.includes(%q)", jid+" dead"))
	p.open(p.first + "job?jid=nowhere") // page after page, without a press
	p.until("the end of the search", "document.querySelector('.empty .big')?.textContent === 'Not found.'")
	p.s.fill("queue", "reports", 3)
	p.s.fill("waiting", gate, 3)
	for _, page := range []string{"retries", "scheduled", "dead", "queue?name=reports", gatePage} {
		path, query, _ := strings.Cut(page, "?")
		if query == "" {
			p.s.fill(path, "", 3) // one of each class
		}
		p.open(p.first + page)
		p.pressed("/" + path + " get")
		eval[bool](p.tab, "!!(document.querySelector('form.filter input[name=class]').value = 'WelcomeEmail')")
		p.send("document.querySelector('form.filter button')")
		classes := eval[[]string](p.tab, "[...document.querySelectorAll('td.job strong')].map(n => n.textContent)")
		require.NotEmpty(p.t, classes, page)
		require.Equal(p.t, []string{"WelcomeEmail"}, slices.Compact(classes), page)
	}
	for _, place := range []struct{ in, queue string }{{"retries", ""}, {"scheduled", ""}, {"dead", ""}, {"queue", "reports"}, {"waiting", gate}} {
		p.s.fill(place.in, place.queue, 90) // thirty of each class, which are more than a page
		at := p.pageOf(place.in, place.queue)
		path, _, _ := strings.Cut(strings.TrimPrefix(at, p.first), "?")
		more := "?class=WelcomeEmail"
		if strings.Contains(at, "?") {
			more = "&class=WelcomeEmail"
		}
		p.open(at + more)
		jids := "[...document.querySelectorAll('form.jobs td.job code')].map(n => n.textContent)"
		first := eval[[]string](p.tab, jids)
		p.pressed("/" + path + " get patient=1")
		p.send("document.querySelector('#searched button')")
		next := eval[[]string](p.tab, jids)
		require.NotEmpty(p.t, next, path)
		for _, jid := range next {
			require.NotContains(p.t, first, jid, path)
		}
	}
	p.open(p.first + "reset")
	p.pressed("/reset post do=reset")
	p.send(button("form.bar", "reset"))
	p.said("The counters are zero.")
	require.Less(p.t, p.s.status().Processed, int64(50))
}

// completed presses the button that filters completed jobs: one of Quick, and none of Long.
func (p *press) completed() {
	p.s.belay("push", "Quick", "--track", "1h", "-q", "live")
	classes := "[...document.querySelectorAll('td.job strong')].map(n => n.textContent)"
	eventually(p.t, "a completed job", func() bool {
		p.open(p.first + "completed")
		return slices.Contains(eval[[]string](p.tab, classes), "Quick")
	})
	for _, class := range []string{"Long", "Quick"} {
		p.open(p.first + "completed")
		p.pressed("/completed get")
		eval[bool](p.tab, "!!(document.querySelector('form.filter input[name=class]').value = '"+class+"')")
		p.send("document.querySelector('form.filter button')")
		shown := slices.Compact(eval[[]string](p.tab, classes))
		require.Equal(p.t, class == "Quick", slices.Equal(shown, []string{"Quick"}), "%s: %v", class, shown)
	}
}

// browser presses the buttons that change only what the browser shows.
func (p *press) browser() {
	p.open(p.first + "retries")
	p.pressed("button pause")
	p.click("document.querySelector('[data-pause]')")
	p.until("a paused page", "document.querySelector('[data-pause]').textContent.includes('Paused')")
	p.click("document.querySelector('[data-pause]')")
	p.pressed("button themeSwitch")
	for _, want := range []string{"light", "dark", "auto"} {
		p.click("document.querySelector('[data-theme-switch]')")
		p.until("the theme "+want, "document.querySelector('[data-theme-switch]').textContent.endsWith('"+want+"')")
	}
	p.send("document.querySelector('form.jobs tbody td.job a')")
	p.pressed("button copy")
	// The answer is gone after two seconds.
	eval[bool](p.tab, `(window.copied = false, new MutationObserver(() => {
		window.copied ||= document.querySelector('[data-copy=the-jid]').textContent === 'Copied'
	}).observe(document.body, { childList: true, characterData: true, subtree: true }), true)`)
	p.click("document.querySelector('[data-copy=the-jid]')")
	p.until("the answer of the button", "window.copied")
	p.open(p.first + "retries")
	p.click("document.querySelector('[data-check-all]')")
	p.until("all to be selected", "document.querySelectorAll('form.jobs tbody input:checked').length === document.querySelectorAll('form.jobs tbody tr').length")
}

// processes presses the buttons of workers, and ends with stopping them.
func (p *press) processes() {
	extra := p.s.work("worker-c")
	signal := func(name, act string) {
		p.open(p.first + "busy")
		p.until(name, fmt.Sprintf("[...document.querySelectorAll('tr[data-key]')].some(row => row.dataset.key.startsWith(%q))", name+":"))
		p.pressed("/signal post do=" + act)
		p.send(fmt.Sprintf("document.querySelector('tr[data-key^=\"%s:\"] button[value=%s]')", name, act))
		p.said("Sent " + act + " to 1 process")
	}
	signal("worker-c", "dump")
	eventually(p.t, "a dump", func() bool { return strings.Contains(extra.log.String(), "goroutine") })
	signal("worker-c", "quiet")
	eventually(p.t, "a quiet process", func() bool { c := p.s.process("worker-c"); return c != nil && c.Quiet })
	signal("worker-c", "stop")
	extra.awaitEnd()
	p.open(p.first + "busy")
	p.send("document.querySelector(\"a.button[href='signal?do=quiet']\")")
	p.pressed("/signal post do=quiet all")
	p.send(button("form.bar", "quiet"))
	p.said("Sent quiet to 2 processes")
	for _, name := range []string{"worker-a", "worker-b"} {
		eventually(p.t, "a quiet "+name, func() bool { c := p.s.process(name); return c != nil && c.Quiet })
	}
	p.send("document.querySelector(\"a.button[href='signal?do=stop']\")")
	p.pressed("/signal post do=stop all")
	p.send(button("form.bar", "stop"))
	p.said("Sent stop to 2 processes")
	eventually(p.t, "the end of all workers", func() bool { return p.s.process("worker-a") == nil && p.s.process("worker-b") == nil })
}
