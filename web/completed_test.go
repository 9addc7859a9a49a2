package web

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// completes stores what a tracked job leaves at its end, some seconds ago.
func (r *rig) completes(ago int, jid string, fields ...string) {
	r.Helper()
	at := time.Now().Unix() - int64(ago)
	r.do("ZADD", r.keys.Completed(), strconv.FormatInt(at, 10), jid)
	state := []string{"HSET", r.keys.Iteration(jid), lua.FieldState, "done", lua.FieldEndedAt, fmt.Sprint(at * 1000), lua.FieldBeganAt, fmt.Sprint(at*1000 - 1500)}
	r.do(append(append(state, lua.FieldJob, payload(jid, "Report")), fields...)...)
}

func TestThePageOfCompletedJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	require.Contains(t, r.get("/completed").body, "No completed jobs.")
	r.completes(60, "j1", lua.FieldResult, `{"Rows":7,"To":"<b>"}`)
	r.completes(30, "j2", lua.FieldState, "discarded", lua.FieldErrorClass, "NotFound", lua.FieldErrorMessage, "no such user")
	page := r.get("/completed").body
	require.Less(t, strings.Index(page, "jid=j2"), strings.Index(page, "jid=j1"), "the last one first")
	for _, text := range []string{
		">done</span>", ">discarded</span>", "<b>Not<wbr>Found</b> no such user", "{&#34;Rows&#34;: 7, &#34;To&#34;: &#34;&lt;b&gt;&#34;}", "1.5s", "s ago", `aria-current="page">Completed`,
	} {
		require.Contains(t, page, text)
	}
	require.NotContains(t, page, `name="ref"`, "there is nothing to do with these jobs")
	require.NotContains(t, page, "no such host", "the error of an earlier run")
	found := r.get("/completed?error=NotFound").body
	require.Contains(t, found, "jid=j2")
	require.NotContains(t, found, "jid=j1")
	require.Contains(t, r.get("/job?jid=j1").body, "Last run began")

	for n := range 40 {
		r.completes(100+n, fmt.Sprintf("more%02d", n))
	}
	r.do("DEL", r.keys.Iteration("more03"), r.keys.Iteration("more07"))
	first := r.get("/completed").body
	require.Equal(t, defaultRows, strings.Count(first, "<tr data-key"))
	require.Contains(t, first, ">Older</button>")
	after := regexp.MustCompile(`name="after" value="([^"]*)"`).FindStringSubmatch(first)
	require.NotNil(t, after)
	second := r.get("/completed?after=" + after[1]).body
	require.Equal(t, 40, strings.Count(first+second, "<tr data-key"), "each once, without those of which nothing is kept")
	require.NotContains(t, second, ">Older</button>")
}

func TestResultsOfCompletedJobsAreMasked(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Mask: func(string, json.RawMessage) string { return `["masked"]` }})
	r.completes(60, "j1", lua.FieldResult, `{"Card":"4111"}`)
	page := r.get("/completed").body
	require.NotContains(t, page, "4111")
	require.Contains(t, page, "masked")
}
