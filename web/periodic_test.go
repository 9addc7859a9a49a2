package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// periodic stores a periodic job that an operator has added, with the payload of its jobs.
func (r *rig) periodic(name, payload string) {
	r.Helper()
	r.do("HSET", r.keys.PeriodicDefinitions(), name,
		fmt.Sprintf("digest schedule 0 \n"+`{"cron":"0 3 * * *","zone":"Europe/Berlin","catch_up":"once","overlap":"skip","job":%s}`, payload))
	r.do("HSET", r.keys.PeriodicLast(), name, fmt.Sprintf("since %d", time.Now().UnixMilli()))
	r.do("ZADD", r.keys.Periodic(), fmt.Sprint(time.Now().Add(90*time.Minute).Unix()), name)
}

func TestPeriodicJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	require.Contains(t, r.get("/periodic").body, "There are no periodic jobs.")
	r.periodic("nightly", payload("tick", "Report"))
	list := r.get("/periodic").body
	for _, text := range []string{"nightly", "0 3 * * *", "Europe/<wbr>Berlin", "Report", "in 1h", "operator", `value="pause"`, `value="run"`, `value="remove"`} {
		require.Contains(t, list, text)
	}
	require.Contains(t, r.get("/history?name=nightly").body, "There was no run yet.")
	require.Equal(t, http.StatusNotFound, r.get("/history?name=other").status)

	act := func(name, do, back string) (page string) {
		got := r.post("/periodic", "name", name, "do", do, "back", back)
		require.Equal(t, back == "periodic", got.head.Get("Location") == "periodic", got.head.Get("Location"))
		return r.follow(got).body
	}
	require.Contains(t, act("nightly", "pause", ""), "nightly is paused: its ticks pass.")
	require.Contains(t, act("nightly", "pause", "periodic"), "nightly was paused already.")
	require.Equal(t, "inf", fmt.Sprint(r.do("ZSCORE", r.keys.Periodic(), "nightly")))
	require.Contains(t, act("nightly", "resume", "periodic"), "nightly is resumed: ticks count from now on.")
	require.Contains(t, act("nightly", "resume", ""), "nightly was not paused.")

	page := act("nightly", "run", "")
	require.Contains(t, page, "Enqueued the job ")
	require.Contains(t, page, "by hand")
	require.Equal(t, 1, r.size("LLEN", r.keys.Queue("mail")))
	require.Contains(t, page, ">enqueued<")
	words := strings.Fields(fmt.Sprint(r.do("LINDEX", r.keys.PeriodicRuns("nightly"), "0")))
	r.do("HSET", r.keys.Iteration(words[3]), "belay_state", "dead", "belay_ended_at_ms", fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli()))
	for _, path := range []string{"/periodic", "/history?name=nightly"} {
		require.Contains(t, r.get(path).body, `<span class="tag bad">dead</span>`, path)
	}
	require.Contains(t, r.get("/history?name=nightly").body, "1h ago")
	require.Contains(t, act("nightly", "remove", "periodic"), "nightly is removed.")
	require.Contains(t, act("nightly", "run", "periodic"), "There is no such periodic job any more.")
	require.Zero(t, r.size("ZCARD", r.keys.Periodic()))
	require.Equal(t, http.StatusBadRequest, r.post("/periodic", "name", "nightly", "do", "delete").status)
	require.Contains(t, r.log.String(), `"act":"remove","periodic":"nightly"`)
}

// A live process would register it again at once.
func TestARegisteredPeriodicJobIsNotRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.periodic("nightly", payload("tick", "Report"))
	stored := fmt.Sprint(r.do("HGET", r.keys.PeriodicDefinitions(), "nightly"))
	r.do("HSET", r.keys.PeriodicDefinitions(), "nightly", strings.Replace(stored, " 0 \n", " 0 host:1:abc\n", 1))
	r.do("ZADD", r.keys.Alive(), fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), "host:1:abc")
	require.Contains(t, r.get("/periodic").body, "host:<wbr>1:<wbr>abc")
	got := r.post("/periodic", "name", "nightly", "do", "remove")
	require.Equal(t, "history?name=nightly", got.head.Get("Location"), "the page with the button: the job is still there")
	require.Contains(t, r.follow(got).body, "A live process has this periodic job in its code")
	require.Equal(t, 1, r.size("ZCARD", r.keys.Periodic()))
}

// The answer of a cancellation is shown, wherever the button was.
func TestCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Retry(), 4)
	r.failed(r.keys.Dead(), 1)
	r.do("SADD", r.keys.Queues(), "mail")
	r.do("LPUSH", r.keys.Queue("mail"), payload("waits", "Report"))
	const button = `formaction="cancel"`
	require.Contains(t, r.get("/retries").body, button)
	require.Contains(t, r.get("/queue?name=mail").body, button)
	require.Contains(t, r.get("/job?jid=waits").body, button)
	require.NotContains(t, r.get("/dead").body, button)

	got := r.post("/cancel", "in", "retries", "queue", "", "ref", "4000000001:jid000001", "ref", "4000000002:jid000002", "ref", "1:elsewhere")
	require.Equal(t, "retries", got.head.Get("Location"))
	require.Contains(t, r.follow(got).body, "Cancelled 3 jobs: 2 removed, 1 marked.")
	require.Equal(t, 2, r.size("ZCARD", r.keys.Retry()))

	got = r.post("/cancel", "in", "queue", "queue", "mail", "ref", "0:waits", "jid", "waits")
	require.Equal(t, "queue?name=mail", got.head.Get("Location"))
	require.Contains(t, r.follow(got).body, "Removed: the job waited, and will not run.")
	require.Zero(t, r.size("LLEN", r.keys.Queue("mail")))

	require.Contains(t, r.follow(r.post("/cancel", "jid", "jid000000", "back", "busy")).body, "Removed")
	got = r.post("/cancel", "jid", "jid000000") // its other copy
	require.Equal(t, "job?jid=jid000000", got.head.Get("Location"))
	require.Contains(t, r.follow(got).body, "Done: the job had ended before, and was not changed.")

	require.Contains(t, r.follow(r.post("/cancel", "in", "retries")).body, "No job was selected.")
	for _, form := range [][]string{{}, {"jid", "a\nb"}, {"in", "//evil.example.com", "jid", "x"}, {"in", "queue", "jid", "x"}} {
		require.Equal(t, http.StatusBadRequest, r.post("/cancel", form...).status, form)
	}
	require.Contains(t, r.log.String(), `"act":"cancel","in":"retries","jobs":3`)
}

func TestARefusedActIsNotLoggedAsDone(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for _, act := range []string{"remove", "pause", "run"} {
		r.follow(r.post("/periodic", "name", "nightly", "do", act))
	}
	require.Equal(t, 3, strings.Count(r.log.String(), `"error":`), r.log.String())
	for _, field := range []string{"answer", "changed", "found"} {
		require.NotContains(t, r.log.String(), `"`+field+`"`)
	}
}
