package web

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestTheFailuresOfAJobAreShown(t *testing.T) {
	t.Parallel()
	t.Run("as_failed_runs_of_those_that_there_may_be", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, Config{})
		r.failed(r.keys.Dead(), 1)
		require.Contains(t, r.get("/dead").body, `<td class="num" data-label="Failed runs">3 of 26</td>`)
		require.Contains(t, r.get("/job?jid=jid000000").body, "<dt>Failed runs</dt><dd>3 of 26</dd>")
	})
	t.Run("with_the_errors_that_it_keeps", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, Config{})
		kept := strings.TrimSuffix(payload("j1", "Report"), "}") +
			`,"belay_errors":[{"attempt":2,"at":"2023-11-14T22:13:20.5Z","class":"E<1>","message":"first <b>"}]}`
		r.do("ZADD", r.keys.Retry(), "4000000000", kept)
		page := r.get("/job?jid=j1").body
		require.Contains(t, page, `<b>2</b> <time datetime="2023-11-14T22:13:20`)
		require.Contains(t, page, "<b>E&lt;1&gt;</b> first &lt;b&gt;")
	})
	t.Run("with_the_reason_of_a_tracked_job_that_was_not_kept", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, Config{})
		r.do("HSET", r.keys.Iteration("j2"), lua.FieldState, "discarded", lua.FieldErrorClass, "E", lua.FieldErrorMessage, "not <worth> it",
			lua.FieldJob, fmt.Sprintf(`{"class":"Report","args":[],"jid":%q,"queue":"mail","retry":true}`, "j2"))
		require.Contains(t, r.get("/job?jid=j2").body, `<p><b>E</b></p><pre class="message">not &lt;worth&gt; it`)
	})
}

func TestThePageOfAWaitingJobSaysWhyItIsNotStarted(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("SADD", r.keys.Queues(), "mail")
	r.do("LPUSH", r.keys.Queue("mail"), payload("j1", "Report"))
	said := func(words string) {
		t.Helper()
		page := r.get("/job?jid=j1").body
		require.Contains(t, page, "<dt>Not started</dt><dd>"+words+"</dd>")
	}
	said("no process takes from it")
	r.do("SADD", r.keys.Paused(), "mail")
	said("the queue is paused (belay queues resume mail)")
	r.post("/classes", "do", "pause", "class", "Report")
	said("the class is paused (belay classes resume Report)")
	r.do("LREM", r.keys.Queue("mail"), "1", payload("j1", "Report"))
	r.do("ZADD", r.keys.Dead(), "4000000000", payload("j1", "Report"))
	require.NotContains(t, r.get("/job?jid=j1").body, "Not started")
}

func TestThePageOfAJobIsAboutThatJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("ZADD", r.keys.Retry(), "4000000000", payload("a", "Report"))
	r.do("ZADD", r.keys.Dead(), "4000000000", payload("b", "Invoice"))
	page := r.get("/job?jid=b&in=retries&ref=4000000000:a").body // a link whose parts are of two jobs
	require.Contains(t, page, "Invoice")
	require.NotContains(t, page, "4000000000:a", "an act would be on another job than the page names")
}

func TestTheNextJobsOfAJobAreShown(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	last := `{"class":"R<b>","jid":"j3","belay_after":"j2","args":[]}`
	r.do("ZADD", r.keys.Dead(), "1", `{"class":"Extract","jid":"j1","args":[],"belay_then":[{"class":"Load","jid":"j2","args":[],"belay_then":[`+last+`]}]}`, "2", last)
	page := r.get("/job?jid=j1").body
	require.Contains(t, page, `<dt>Next jobs</dt><dd>2: <span title="j2">Load</span>, <span title="j3">R&lt;b&gt;</span></dd>`)
	require.Contains(t, r.get("/job?jid=j3").body, `<dt>Follows</dt><dd><a href="job?jid=j2"><code>j2</code></a></dd>`)
}

// A search for each refresh would keep Redis busy: the page of a running job asks the process that runs it.
func TestARunningJobIsFollowedWithoutASearch(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	const identity = "host:1:aa"
	_, err := r.keys.Register(identity, lua.Record{Queues: []string{"mail"}, Beat: time.Second, TTL: time.Minute}).Do(t.Context(), r.client)
	require.NoError(t, err)
	working := r.keys.Working("mail", identity)
	r.do("LPUSH", working, payload("runs", "Report"))
	r.do("HSET", r.keys.Process(identity), "info", `{"hostname":"host","pid":1,"queues":["mail"]}`, "busy", "1")
	r.do("SADD", r.keys.Processes(), identity)
	work, err := json.Marshal(map[string]any{"queue": "mail", "run_at": time.Now().Unix(), "payload": payload("runs", "Report")})
	require.NoError(t, err)
	r.do("HSET", r.keys.Work(identity), "t1", string(work))
	require.Contains(t, r.get("/busy").body, `data-label="Arguments"><code>1, &#34;two&#34;</code>`)

	self := selfOf.FindStringSubmatch(r.get("/job?jid=runs").body)
	require.NotNil(t, self, "the page is live")
	refresh := func() string {
		return r.ask(r.dash, "GET", "/"+html.UnescapeString(self[1]), "", "X-Belay-Refresh", "1").body
	}
	r.do("HSET", r.keys.Iteration("runs"), lua.FieldState, "running", lua.FieldProgress, "3/4")
	require.Contains(t, refresh(), "3 of 4")
	require.Contains(t, refresh(), "&#34;two&#34;")
	r.do("DEL", working, r.keys.Work(identity))
	r.do("ZADD", r.keys.Retry(), "4000000000", payload("runs", "Report"))
	require.Contains(t, refresh(), "The job has left process host:1:aa.", "the other places are not searched")
	r.do("DEL", r.keys.Retry())
	r.do("HSET", r.keys.Iteration("runs"), lua.FieldState, "done", lua.FieldJob, payload("runs", "Report"), lua.FieldResult, `"its result"`)
	require.Contains(t, refresh(), "its result", "what is kept of it is read at once")
}
