package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

func TestPeriodic(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	on := func(words ...string) said { return h.invoke("", append([]string{"periodic"}, words...)...) }
	require.Equal(t, said{out: "no periodic jobs\n"}, on())

	added := on("add", "nightly", "0 3 * * *", "Report", `"all"`, "--zone", "Europe/Berlin", "-q", "reports", "--retry", "3")
	require.Zero(t, added.code, added.errs)
	require.Regexp(t, `^nightly: added; the first tick is at \d{4}-\d\d-\d\d 03:00:00 CES?T\n$`, added.out)
	require.Equal(t, said{out: "nightly: it was so already\n"},
		on("add", "nightly", "0 3 * * *", "Report", `"all"`, "--zone", "Europe/Berlin", "-q", "reports", "--retry", "3"))
	list := on("list").out
	for _, word := range []string{"nightly", "0 3 * * *", "Europe/Berlin", "Report", "reports", "operator"} {
		require.Contains(t, list, word)
	}
	var job inspect.Periodic
	require.NoError(t, json.Unmarshal([]byte(on("--json").out), &job))
	require.Equal(t, []string{"once", "skip", `["all"]`, "nightly"}, []string{job.CatchUp, job.Overlap, string(job.Args), job.Name})
	require.NotNil(t, job.NextAt)
	require.Nil(t, job.LastAt)

	first := on("run", "nightly")
	require.Zero(t, first.code, first.errs)
	second := on("run", "nightly", "--json")
	require.Equal(t, exitDuplicate, second.code, "the job of the first waits")
	require.Contains(t, second.out, `"outcome":"refused"`)
	require.Contains(t, second.out, strings.TrimSpace(first.out))
	payload := h.payloads("LRANGE", h.key("queue:reports"), "0", "-1")[0]
	require.Regexp(t, `"belay_tick":{"name":"nightly","at":"[^"]+","manual":true}`, payload)
	require.Contains(t, payload, `"retry":3`)
	history := on("history", "nightly").out
	require.Regexp(t, `(?m)^by hand .* refused +- +`, history)
	require.Regexp(t, `(?m)^by hand .* enqueued +- +`+strings.TrimSpace(first.out), history)

	tickAt := time.Date(2026, 1, 1, 3, 0, 0, 0, time.FixedZone("", 2*60*60))
	h.do("LPUSH", h.key("belay:periodic:runs:nightly"), fmt.Sprintf("%s %d enqueued x", tickAt.Format(time.RFC3339), tickAt.UnixMilli()))
	local := regexp.QuoteMeta(tickAt.Local().Format("2006-01-02 15:04:05 MST"))
	require.Regexp(t, `(?m)^`+local+` +`+local+` +enqueued`, on("history", "nightly").out, "all times are local, and name the zone")

	require.Equal(t, said{out: "nightly: paused\n"}, on("pause", "nightly"))
	require.Equal(t, said{out: "nightly: it is paused already\n"}, on("pause", "nightly"))
	require.Contains(t, on().out, "paused")
	require.Equal(t, said{out: "nightly: resumed\n"}, on("resume", "nightly"))
	require.Equal(t, said{out: "nightly: it is not paused\n"}, on("resume", "nightly"))
	require.NotContains(t, on().out, "paused")

	for _, act := range []string{"run", "history", "pause", "resume", "remove"} {
		require.Equal(t, exitAbsent, on(act, "weekly").code, act)
	}
	require.Equal(t, said{out: "nightly: removed\n"}, on("remove", "nightly"))
	require.Equal(t, said{out: "no periodic jobs\n"}, on())
}

func TestPeriodicNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for says, words := range map[string][]string{
		"give a name, a schedule and a class": {"nightly", "0 3 * * *"},
		"minute, hour, day":                   {"nightly", "0 3 * *", "Report"},
		"Europe/Berlin":                       {"nightly", "@daily", "Report", "--zone", "Berlin"},
		"is not JSON":                         {"nightly", "@daily", "Report", "all"},
		"skip, once or all":                   {"nightly", "@daily", "Report", "--catch-up", "some"},
		"skip, queue or allow":                {"nightly", "@daily", "Report", "--overlap", "no"},
	} {
		got := h.invoke("", append([]string{"periodic", "add"}, words...)...)
		require.Equal(t, exitUsage, got.code, words)
		require.Contains(t, got.errs, says)
	}
	require.Zero(t, invoke("", append(h.at("periodic", "add", "n", "@daily", "Report"), "--", "-5")...).code)
	require.Contains(t, h.invoke("", "periodic", "--json").out, `"args":[-5]`)
}
