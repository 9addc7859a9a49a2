package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

func TestPrintClasses(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rows := newTable(&out)
	ms := func(n int) inspect.Seconds { return inspect.Seconds{Duration: time.Duration(n) * time.Millisecond} }
	mean := ms(40)
	printClasses(rows, inspect.Classes{ClassCount: 3, Classes: []inspect.Class{
		{Name: "Mail\x1b", Runs: 12, Failed: 3, Mean: &mean, Run: &inspect.Durations{P50: ms(10), P95: ms(20), P99: ms(1500)}},
		{Name: "B", Runs: 1, Failed: 1},
	}, Problems: []string{"odd"}}, []inspect.ClassRule{{Class: "B", Rule: inspect.RuleLimit, Concurrency: 5}, {Class: "C", Rule: inspect.RulePause}})
	require.NoError(t, rows.Flush())
	require.Regexp(t, `(?m)^Mail\\x1b +12 +3 +40ms +< 20ms +< 20ms +1.5s +- +- +- +-$`, out.String())
	require.Regexp(t, `(?m)^B +1 +1( +-){7} +limit 5$`, out.String())
	require.Contains(t, out.String(), "classes: 2 of 3")
	require.Contains(t, out.String(), "problem: odd")
}

func TestRulesOfClasses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	require.Equal(t, "0 classes with a rule\n", h.invoke("", "classes", "list").out)
	require.Equal(t, said{0, "Reports::Daily: paused (no run of it was counted in the last 72h)\nB: paused (no run of it was counted in the last 72h)\n", ""},
		h.invoke("", "classes", "pause", "Reports::Daily", "B"))
	require.Equal(t, "B: at most 5 at once\n", h.invoke("", "classes", "limit", "B", "5").out)
	require.Equal(t, "B: at most 5 at once already\n", h.invoke("", "classes", "limit", "B", "5").out)
	h.wait("class.Reports%3A%3ADaily:", "mail", deadJob("Reports::Daily", "1"))
	refused := h.invoke("", "classes", "drop", "C")
	require.Equal(t, exitUsage, refused.code)
	require.Contains(t, refused.errs, "it would end all jobs of C before they start: give --yes if you mean that")
	require.Contains(t, h.invoke("", "classes", "drop", "C", "--yes").out, "C: dropped")
	list := h.invoke("", "classes", "list").out
	require.Regexp(t, `(?m)^B +limit 5 +0 +0 +0 +-$`, list)
	require.Regexp(t, `(?m)^C +drop +0 `, list)
	require.Regexp(t, `(?m)^Reports::Daily +pause +0 +0 +1 `, list)
	require.Contains(t, h.invoke("", "classes", "list", "--json").out, `{"class":"B","rule":"limit","concurrency":5,"running":0,"admitted":0,"waiting":0,"oldest_seconds":0}`)
	require.Contains(t, invoke("", slices.Concat([]string{"__complete"}, h.at(), []string{"classes", "resume", "Rep"})...).out, "Reports::Daily\n")

	for _, words := range []string{"remove class.B", "remove class.B --dry-run", "reset class.B", "reset class.B --dry-run"} {
		refused := h.invoke("", append([]string{"limits"}, strings.Fields(words)...)...)
		require.Equal(t, exitUsage, refused.code, words)
		require.Contains(t, refused.errs, "it is the rule of the class B, which belay classes changes", words)
	}
	gone := h.invoke("", "classes", "resume", "B", "none")
	require.Equal(t, said{exitAbsent, "B: resumed\n", "belay classes resume: not there, or not any more: none\n"}, gone)
	for _, words := range [][]string{{"limit", "B"}, {"limit", "B", "0"}, {"limit", "B", "many"}, {"pause"}, {"pause", "C", "a\x01b"}, {"drop", "--yes"}} {
		require.Equal(t, exitUsage, h.invoke("", append([]string{"classes"}, words...)...).code, words)
	}
	require.Equal(t, "drop", h.do("HGET", h.key("belay:classes"), "C"), "a wrong name has changed none")
}

// The note that no run of a class was counted, which shows that its name may be misspelled, is no lie.
func TestTheNoteAboutAClassWithoutRuns(t *testing.T) {
	t.Parallel()
	const note = "no run of it was counted"
	h := newHouse(t)
	ten := lua.NewKeys(h.prefix).ClassTen(time.Now().UTC())
	pause := func(class string) string {
		t.Helper()
		paused := h.invoke("", "classes", "pause", class)
		require.Zero(t, paused.code, paused.errs)
		return paused.out
	}
	for n := range 600 { // more than are listed
		h.do("HSET", ten, fmt.Sprintf("Busy%d|p", n), "100")
	}
	h.do("HSET", ten, "Seldom|p", "1")
	require.Equal(t, "Seldom: paused\n", pause("Seldom"), "it is not among the busiest classes")
	require.Contains(t, pause("Sedlom"), note+" in the last 72h; did you mean Seldom?", "the rule is known by now")
	h.do("SADD", h.key("processes"), "ruby:1")
	h.do("HSET", h.key("ruby:1"), "info", `{"hostname":"ruby","pid":1,"queues":["default"],"started_at":1}`, "busy", "1", "beat", fmt.Sprint(time.Now().Unix()))
	h.do("HSET", h.key("ruby:1:work"), "t1", fmt.Sprintf(`{"queue":"default","payload":%q,"run_at":%d}`, deadJob("Long", "1"), time.Now().Unix()))
	require.Equal(t, "Long: paused\n", pause("Long"), "its first run has not ended")
	require.Contains(t, pause("Other"), note)
	h.do("HSET", ten, launcher.OtherClass+"|p", "1000")
	require.Equal(t, "Another: paused\n", pause("Another"), "a process has counted more classes than by name")
}
