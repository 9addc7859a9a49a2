package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// continuing returns the form with which the page of a long act goes on; nil at its end.
func continuing(body string) []string {
	_, form, found := strings.Cut(body, "data-continue>")
	if !found {
		return nil
	}
	var pairs []string
	for _, match := range hidden.FindAllStringSubmatch(form, -1) {
		pairs = append(pairs, match[1], match[2])
	}
	return pairs
}

func TestAnActOnAllIsASeriesOfBoundedSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.dash.stepTime = 0
	const all = 10_000
	r.failed(r.keys.Dead(), all)
	page := r.get("/confirm?in=dead&do=retry")
	require.Contains(t, page.body, "Retry 10,000 jobs of the dead set?")

	form := []string{"in", "dead", "do", "retry", "all", "1", "of", "10000"}
	steps, before := 0, all
	got := r.post("/act", form...)
	for ; got.status == http.StatusOK; got = r.post("/act", form...) {
		steps++
		form = continuing(got.body)
		require.NotEmpty(t, form)
		left := r.size("ZCARD", r.keys.Dead())
		require.Less(t, left, before)
		require.LessOrEqual(t, before-left, 2048, "a step is bounded")
		require.Equal(t, all, left+r.size("LLEN", r.keys.Queue("mail")), "nothing is lost on the way")
		require.Contains(t, got.body, fmt.Sprintf("of about %s", "10,000 jobs"))
		before = left
	}
	require.GreaterOrEqual(t, steps, 4)
	require.Contains(t, r.follow(got).body, "Retried: 10,000 jobs.")
	require.Zero(t, r.size("ZCARD", r.keys.Dead()))
	require.Equal(t, all, r.size("LLEN", r.keys.Queue("mail")))
}

// The browser, or the dashboard, is gone after a few steps.
func TestAnActThatWasLeftInTheMiddleGoesOnByPressingAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.dash.stepTime = 0
	r.failed(r.keys.Retry(), 5000)
	require.Equal(t, http.StatusOK, r.post("/act", "in", "retries", "do", "kill", "all", "1").status)
	moved := r.size("ZCARD", r.keys.Dead())
	require.Equal(t, 5000, moved+r.size("ZCARD", r.keys.Retry()))
	require.Positive(t, moved)

	again := r.dashboard(r.dash.lane, r.dash.cfg)
	got := r.ask(again, "POST", "/act", "in=retries&do=kill&all=1", "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusSeeOther, got.status)
	require.Zero(t, r.size("ZCARD", r.keys.Retry()))
	require.Equal(t, 5000, r.size("ZCARD", r.keys.Dead()))
}

func (r *rig) size(command, key string) int {
	r.Helper()
	n, _ := r.do(command, key).(int64)
	return int(n)
}

func TestADoubleClickDoesNoMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 3)
	ref := refs.FindStringSubmatch(r.get("/dead").body)[1]
	require.Contains(t, r.follow(r.post("/act", "in", "dead", "do", "retry", "ref", ref)).body, "Retried: 1 job.")
	second := r.follow(r.post("/act", "in", "dead", "do", "retry", "ref", ref)).body
	require.Contains(t, second, "Retried: 0 jobs. 1 job had left already.")
	require.Equal(t, 2, r.size("ZCARD", r.keys.Dead()))
	require.Equal(t, 1, r.size("LLEN", r.keys.Queue("mail")))
}

var refs = regexp.MustCompile(`name="ref" value="([^"]+)"`)

func TestAFilterChoosesJobsForAnAct(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 30)
	for n := range 7 {
		r.do("ZADD", r.keys.Dead(), fmt.Sprint(n), payload(fmt.Sprintf("other%d", n), "Other"))
	}
	page := r.get("/dead?class=Other").body
	require.Contains(t, page, "other3")
	require.NotContains(t, page, "jid000001")
	require.Contains(t, r.get("/dead?text=no+such+HOST").body, "jid000029")
	require.NotContains(t, r.get("/dead?text=absent").body, "jid000001")
	require.Contains(t, r.get("/confirm?in=dead&do=delete&class=Other").body, "Delete 7 jobs of the dead set with class Other?")
	require.Contains(t, r.follow(r.post("/act", "in", "dead", "do", "delete", "all", "1", "class", "Other")).body, "Deleted: 7 jobs.")
	require.Equal(t, 30, r.size("ZCARD", r.keys.Dead()))
	require.Equal(t, http.StatusSeeOther, r.post("/act", "in", "dead", "do", "delete", "class", "Report").status)
	require.Equal(t, 30, r.size("ZCARD", r.keys.Dead()), "a filter without all selects nothing")
}

func TestFailuresAreGroupedAndFiltered(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 30)
	late := strings.Replace(strings.TrimSuffix(payload("late", "Report"), "}"), `"queue":"mail"`, `"queue":"slow"`, 1) + `,"tags":["billing"],"error_class":"Late"}`
	r.do("ZADD", r.keys.Dead(), "1700000000", late, "1700000001", payload("a", "Other"))
	page := r.get("/dead").body
	require.Contains(t, page, "32 jobs when this page was opened")
	require.Regexp(t, `(?s)<section id="groups".*dead\?class=Report&amp;error=[^"]+">.*>30<.*dead\?class=Other&amp;error=[^"]+">.*dead\?class=Report&amp;error=Late">.*Late.*>1<`, page)
	require.Contains(t, page, `<option value="Other">`)
	require.Contains(t, page, `<option value="Late">`)
	require.NotContains(t, r.ask(r.dash, "GET", "/dead", "", "X-Belay-Refresh", "1").body, `id="groups"`, "a refresh does not count again")
	require.NotContains(t, r.get("/dead?page=2").body, `id="groups"`)
	for _, filter := range []string{"error=Late", "tag=billing", "queue=slow", "text=late", "class=Report&error=Late&tag=billing&queue=slow"} {
		got := r.get("/dead?" + filter).body
		require.Contains(t, got, "Select job late", filter)
		require.Equal(t, 1, strings.Count(got, "data-key="), filter)
		require.Contains(t, r.get("/confirm?in=dead&do=delete&"+filter).body, "Delete 1 job of the dead set", filter)
	}
	require.Contains(t, r.get("/confirm?in=dead&do=delete&class=Report&error=Late&queue=slow&tag=billing").body,
		"Delete 1 job of the dead set with class Report with the error Late with the tag billing of queue slow?")
	require.Regexp(t, `(?s)These jobs.*>30<.*>1<.*>1<`, r.get("/confirm?in=dead&do=retry").body)
	require.Contains(t, r.follow(r.post("/act", "in", "dead", "do", "delete", "all", "1", "queue", "slow", "error", "Other")).body, "Deleted: 0 jobs.")
	require.Contains(t, r.follow(r.post("/act", "in", "dead", "do", "delete", "all", "1", "queue", "slow", "error", "Late", "tag", "billing")).body, "Deleted: 1 job.")
	require.Equal(t, 31, r.size("ZCARD", r.keys.Dead()))

	r.dash.searchTime = time.Nanosecond
	r.failed(r.keys.Dead(), 3000)
	require.Regexp(t, `the first [\d,]+ of 3,001 jobs`, r.get("/dead").body)
	require.Regexp(t, `[\d,]+ of these jobs`, r.get("/confirm?in=dead&do=retry").body)
}

func TestJobsAreMovedPostponedAndPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("SADD", r.keys.Queues(), "mial")
	r.do("LPUSH", r.keys.Queue("mial"), payload("a", "Report"), payload("b", "Report"))
	require.Contains(t, r.get("/confirm?in=queue&queue=mial&do=move").body, `name="to"`)
	require.Contains(t, r.follow(r.post("/act", "in", "queue", "queue", "mial", "do", "move", "all", "1", "to", "mail")).body, "Moved: 2 jobs.")
	require.Equal(t, 2, r.size("LLEN", r.keys.Queue("mail")))

	r.failed(r.keys.Retry(), 1)
	require.Equal(t, http.StatusBadRequest, r.post("/act", "in", "retries", "do", "reschedule", "all", "1", "delay", "-1").status)

	require.Contains(t, r.follow(r.post("/queue", "name", "mail", "do", "pause")).body, "Queue mail is paused.")
	require.Contains(t, r.get("/queues").body, "Resume")
	require.Contains(t, r.follow(r.post("/queue", "name", "mail", "do", "pause")).body, "was paused already")
	require.Contains(t, r.follow(r.post("/queue", "name", "mail", "do", "resume", "back", "queues")).body, "Queue mail is resumed.")
	require.Contains(t, r.follow(r.post("/reset", "do", "reset")).body, "The counters are zero.")
	require.Contains(t, r.follow(r.post("/signal", "process", "gone", "do", "stop")).body, "no such process")
}

func TestPostponingBringsNoJobForward(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	now := float64(time.Now().Unix())
	due := func(jid string) float64 {
		text, _ := r.do("ZSCORE", r.keys.Retry(), payload(jid, "Report")).(string)
		score, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		return score - now
	}
	for jid, seconds := range map[string]float64{"late": -60, "soon": 600, "distant": 7200} {
		r.do("ZADD", r.keys.Retry(), fmt.Sprint(now+seconds), payload(jid, "Report"))
	}
	postpone := func(pairs ...string) string {
		return r.follow(r.post("/act", append([]string{"in", "retries", "do", "reschedule", "delay", "3600"}, pairs...)...)).body
	}
	require.Contains(t, r.get("/confirm?in=retries&do=reschedule").body, "a job that is due later stays")
	require.Contains(t, postpone("all", "1", "of", "3"), "Rescheduled: 2 jobs. The others are due later.")
	require.InDelta(t, 3600, due("late"), 60)
	require.InDelta(t, 3600, due("soon"), 60)
	require.InDelta(t, 7200, due("distant"), 0)

	ref := fmt.Sprintf("%.0f:distant", now+7200)
	require.Contains(t, postpone("ref", ref), "Rescheduled: 1 job.")
	require.InDelta(t, 10800, due("distant"), 0, "from its own time")
	require.Contains(t, postpone("ref", ref), "1 job had left already", "a double click")
	require.InDelta(t, 10800, due("distant"), 0)

	r.do("ZADD", r.keys.Retry(), fmt.Sprint(now-60), payload("late", "Report"))
	postpone("ref", fmt.Sprintf("%.0f:late", now-60))
	require.InDelta(t, 3600, due("late"), 60, "a job that is overdue, from now")
	postpone("ref", fmt.Sprintf("%.0f:distant", now+10800), "ref", fmt.Sprintf("%.0f:late", due("late")+now))
	require.InDelta(t, 10800, due("distant"), 0, "of several, none comes forward")
}

func TestQuarantinedJobsAreShownAsTheyAreAndMoveToTheOtherQuarantine(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("SADD", r.keys.Queues(), "mial")
	r.get("/queue?name=mial") // reads the status
	r.do("LPUSH", r.keys.Quarantine("mial"), payload("a", "Report"))
	require.Contains(t, r.get("/queue?name=mial").body, "Select job a", "although the status is of the second before")
	require.Contains(t, r.get("/confirm?in=quarantined&queue=mial&do=move").body, "They go to the quarantine of the other queue")
	require.Contains(t, r.get("/confirm?in=queue&queue=mial&do=move").body, "They go to the back of the other queue")
	require.Contains(t, r.follow(r.post("/act", "in", "quarantined", "queue", "mial", "do", "move", "all", "1", "to", "mail")).body, "Moved: 1 job.")
	require.Equal(t, 1, r.size("LLEN", r.keys.Quarantine("mail")))
	require.NotContains(t, r.get("/queue?name=mial").body, "Select job a")
}

func TestQuarantinedJobsAreRetriedAndWaitingOnesAreNot(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("SADD", r.keys.Queues(), "mail")
	r.do("LPUSH", r.keys.Queue("mail"), payload("waits", "Report"))
	r.do("LPUSH", r.keys.Quarantine("mail"), payload("a", "Report"), payload("b", "Report"))
	page := r.get("/queue?name=mail").body
	require.Contains(t, page, "confirm?in=quarantined&amp;queue=mail&amp;class=&amp;text=&amp;do=retry")
	require.NotContains(t, page, "confirm?in=queue&amp;queue=mail&amp;class=&amp;text=&amp;do=retry")
	require.Equal(t, http.StatusBadRequest, r.post("/act", "in", "queue", "queue", "mail", "do", "retry", "all", "1").status)
	require.Contains(t, r.follow(r.post("/act", "in", "quarantined", "queue", "mail", "do", "retry", "id", "a")).body, "Retried: 1 job.")
	require.Contains(t, r.follow(r.post("/act", "in", "quarantined", "queue", "mail", "do", "retry", "all", "1")).body, "Retried: 1 job.")
	require.Zero(t, r.size("LLEN", r.keys.Quarantine("mail")))
	require.Equal(t, 3, r.size("LLEN", r.keys.Queue("mail")))
}

func TestJobsOfASetMoveToAnotherQueueWhenTheyRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("ZADD", r.keys.Retry(), "4000000000", payload("a", "Report"))
	require.Contains(t, r.get("/confirm?in=retries&do=move").body, "They stay where they are, and go to the other queue when they run.")
	require.Contains(t, r.follow(r.post("/act", "in", "retries", "do", "move", "all", "1", "to", "other")).body, "Moved: 1 job.")
	require.Equal(t, 1, r.size("ZCARD", r.keys.Retry()))
	require.Contains(t, fmt.Sprint(r.do("ZRANGE", r.keys.Retry(), "0", "-1")), `"queue":"other"`)
}

func TestThePageOfAJobAsksBeforeItEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("ZADD", r.keys.Retry(), "4000000000", payload("a", "Report"))
	page := r.get("/job?jid=a&in=retries&ref=4000000000:a").body
	for _, act := range []string{"Kill", "Delete", "Cancel"} {
		require.Contains(t, page, `data-ask="`+act+` this job? `+effectOf(strings.ToLower(act))+`"`)
	}
	require.Contains(t, page, ">Retry</button>")
	require.NotContains(t, page, `data-ask="Retry`)
	list := r.get("/retries").body
	for _, act := range []string{"Kill", "Delete", "Cancel"} {
		require.Contains(t, list, `data-ask="`+act+` the selected jobs? `+effectOf(strings.ToLower(act))+`"`)
	}
	require.NotContains(t, list, `data-ask="Retry`)
}

func TestThePageOfAJobShowsEverythingAboutIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	full := strings.TrimSuffix(payload("full", "Report"), "}") + `,"tags":["billing"],"meta":{"tenant":"seven"},"belay_timeout_ms":1500,` +
		`"belay_deadline_ms":1700000001000,"belay_tick":{"name":"nightly"},"x_own":"kept"}`
	r.do("ZADD", r.keys.Dead(), "1700000000", full)
	page := r.get("/job?jid=full").body
	for _, text := range []string{
		`<span class="tag">billing</span>`, "<dt>tenant</dt><dd>seven</dd>", "<dt>Timeout</dt><dd>1.5s</dd>", "2023-11-14 22:13:21 UTC",
		`<a href="history?name=nightly">nightly</a>`, "the worker's limit", "&#34;x_own&#34;: &#34;kept&#34;", `data-copy="the-payload"`,
	} {
		require.Contains(t, page, text)
	}
}

func TestAJobShowsThatItFailedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	twice := strings.TrimSuffix(payload("twice", "Report"), "}") + `,"retried_at":1700000099.5}`
	for set, in := range map[string]string{r.keys.Retry(): "retries", r.keys.Dead(): "dead"} {
		r.do("ZADD", set, "4000000000", twice)
		r.do("ZADD", set, "4000000001", payload("once", "Report"))
		page := r.get("/job?jid=twice&in=" + in + "&ref=4000000000:twice").body
		require.Regexp(t, `(?s)First failed.*2023-11-14 22:13:22 UTC.*Failed again.*2023-11-14 22:14:59 UTC`, page)
		require.NotContains(t, r.get("/job?jid=once&in="+in+"&ref=4000000001:once").body, "Failed again")
	}
}

func TestReadOnlyShowsNoButtonsAndRefusesAllActs(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{ReadOnly: true})
	r.failed(r.keys.Dead(), 2)
	r.do("SADD", r.keys.Queues(), "mail")
	before := r.digest()
	requireNoActs(t, r, r.dash, []string{"Sec-Fetch-Site", "same-origin"})
	require.Equal(t, before, r.digest())
}

func TestAuthorizeDecidesEachActAndTheLogHasIt(t *testing.T) {
	t.Parallel()
	var acts []Act
	r := newRig(t, Config{
		User: func(q *http.Request) string { return q.Header.Get("X-User") },
		Authorize: func(_ *http.Request, act Act) error {
			acts = append(acts, act)
			if act.Name == "delete" {
				return errors.New("only the owner deletes")
			}
			return nil
		},
	})
	r.failed(r.keys.Dead(), 2)
	send := func(form string) answer {
		return r.ask(r.dash, "POST", "/act", form, "Sec-Fetch-Site", "same-origin", "X-User", "carol\nforged=1")
	}
	refused := send("in=dead&do=delete&all=1")
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Contains(t, refused.body, "only the owner deletes")
	require.Equal(t, 2, r.size("ZCARD", r.keys.Dead()))
	require.Equal(t, http.StatusSeeOther, send("in=dead&do=retry&id=jid000000").status)
	require.Equal(t, 1, r.size("ZCARD", r.keys.Dead()))
	require.Equal(t, []Act{{Name: "delete", In: "dead", All: true}, {Name: "retry", In: "dead", IDs: []string{"jid000000"}}}, acts)
	require.Contains(t, r.log.String(), `"user":"carol\\nforged=1"`)
	require.Contains(t, r.log.String(), `"ids":"jid000000"`)
	require.Contains(t, r.log.String(), `"moved":1`)
}

func TestAuthorizeMayRefuseAnyAct(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Authorize: func(*http.Request, Act) error { return errors.New("not today") }})
	r.failed(r.keys.Dead(), 2)
	r.do("SADD", r.keys.Queues(), "mail")
	before := r.digest()
	requireActsRefused(t, r, r.dash, []string{"Sec-Fetch-Site", "same-origin"})
	require.Equal(t, before, r.digest())
}

func TestAuthorizeGetsTheTimeOfAReschedule(t *testing.T) {
	t.Parallel()
	var acts []Act
	r := newRig(t, Config{Authorize: func(_ *http.Request, act Act) error {
		acts = append(acts, act)
		return nil
	}})
	r.do("ZADD", r.keys.Retry(), "1", payload("a", "Report"))
	require.Equal(t, http.StatusSeeOther, r.post("/act", "in", "retries", "do", "reschedule", "all", "1", "delay", "3600").status)
	require.Len(t, acts, 1)
	require.WithinDuration(t, time.Now().Add(time.Hour), acts[0].At, 10*time.Minute)
	require.Contains(t, r.log.String(), `"at":"`+acts[0].At.UTC().Format(time.RFC3339)+`"`)
}

// What an act answered stands in a cookie. Nobody else can write one.
func TestAFlashIsSigned(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 1)
	got := r.post("/act", "in", "dead", "do", "delete", "all", "1")
	cookie := got.head.Get("Set-Cookie")
	require.Contains(t, cookie, "HttpOnly")
	require.Contains(t, cookie, "SameSite=Strict")
	value, _, _ := strings.Cut(cookie, ";")
	require.Contains(t, r.ask(r.dash, "GET", "/dead", "", "Cookie", value).body, "Deleted: 1 job.")
	require.NotContains(t, r.ask(r.dashboard(r.dash.lane, r.dash.cfg), "GET", "/dead", "", "Cookie", value).body, "Deleted: 1 job.")
	require.NotContains(t, r.ask(r.dash, "GET", "/dead", "", "Cookie", value[:len(value)-2]+"AA").body, "Deleted: 1 job.")
	require.NotContains(t, r.ask(r.dash, "GET", "/dead", "", "Cookie", value, "X-Belay-Refresh", "1").body, "Deleted: 1 job.")
	require.Equal(t, "dead", got.head.Get("Location"))
	location, err := url.Parse(got.head.Get("Location"))
	require.NoError(t, err)
	require.False(t, location.IsAbs())
}

func TestAKillKeepsTheDeadSetWithinItsLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{DeadLimit: 2})
	r.do("ZADD", r.keys.Dead(), fmt.Sprint(time.Now().Unix()-60), payload("oldest", "Report"), fmt.Sprint(time.Now().Unix()-59), payload("older", "Report"))
	r.failed(r.keys.Retry(), 1)
	require.Equal(t, http.StatusSeeOther, r.post("/act", "in", "retries", "do", "kill", "id", "jid000000").status)
	require.Equal(t, []any{payload("older", "Report"), payload("jid000000", "Report")}, r.do("ZRANGE", r.keys.Dead(), "0", "-1"))
}

// A form that names no possible target is the user's mistake, and not a failure of Redis.
func TestAMoveToNoQueueIsRefusedAsAMistake(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("SADD", r.keys.Queues(), "mail")
	r.do("LPUSH", r.keys.Queue("mail"), payload("a", "Report"))
	r.failed(r.keys.Dead(), 1)
	before := r.digest()
	for _, form := range [][]string{
		{"in", "queue", "queue", "mail", "do", "move", "all", "1", "to", ""},
		{"in", "queue", "queue", "mail", "do", "move", "all", "1", "to", "mail"},
		{"in", "queue", "queue", "mail", "do", "move", "id", "a", "to", "two\nlines"},
		{"in", "dead", "do", "move", "all", "1", "to", ""},
		{"in", "scheduled", "do", "reschedule", "all", "1", "at", "999999999999999"},
	} {
		got := r.post("/act", form...)
		require.Equal(t, http.StatusBadRequest, got.status, "%q: %s", form, got.body)
		require.NotContains(t, got.body, "Redis refused")
	}
	require.Equal(t, before, r.digest(), "nothing was moved")
	require.NotContains(t, r.log.String(), "dashboard request failed", "it is no failure")
}
