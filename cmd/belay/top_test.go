package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

// A fakeRedis answers the page's reads and records its acts.
type fakeRedis struct {
	status inspect.Status
	jobs   map[inspect.Place][]inspect.Entry
	err    error
	acts   []string
}

func (f *fakeRedis) Status(context.Context) (inspect.Status, error) { return f.status, f.err }

func (f *fakeRedis) did(what string) (bool, error) {
	f.acts = append(f.acts, what)
	return true, f.err
}

func (f *fakeRedis) Pause(_ context.Context, queue string) (bool, error) {
	return f.did("pause " + queue)
}

func (f *fakeRedis) Resume(_ context.Context, queue string) (bool, error) {
	return f.did("resume " + queue)
}

func (f *fakeRedis) Signal(_ context.Context, identity string, signal inspect.Signal) (bool, error) {
	return f.did(string(signal) + " " + identity)
}

func (f *fakeRedis) Jobs(_ context.Context, query inspect.Query) iter.Seq2[inspect.Found, error] {
	return func(yield func(inspect.Found, error) bool) {
		if f.err != nil {
			yield(inspect.Found{}, f.err)
			return
		}
		for _, entry := range f.jobs[query.Places[0]] {
			if !yield(inspect.Found{Entry: &entry}, nil) {
				return
			}
		}
	}
}

// A page is a top without a terminal: what bubbletea would do for it is done at once.
type page struct {
	*top
	t *testing.T
}

func newPage(t *testing.T, redis *fakeRedis) page {
	t.Helper()
	p := page{&top{ctx: t.Context(), redis: redis, every: time.Hour}, t}
	p.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	p.do(p.read())
	return p
}

func (p page) send(msg tea.Msg) {
	_, cmd := p.Update(msg)
	p.do(cmd)
}

func (p page) do(cmd tea.Cmd) {
	if cmd != nil {
		p.send(cmd())
	}
}

// keys presses keys, each a word.
func (p page) keys(words ...string) {
	for _, word := range words {
		p.do(p.press(word))
	}
}

func (p page) lines() []string { return strings.Split(p.View().Content, "\n") }

func (p page) shown() string { return ansi.Strip(p.View().Content) }

// hostile is text that would control a terminal, or take more columns than it has letters.
var hostile = []string{
	"\x1b[31mred\x1b[2J", "bell\a\r\n\t\b", "\u202eright to left", "\x9b31m", "日本語日本語日本語", "👩‍👩‍👧‍👦🇩🇪e\u0301\u200b\ufeff", "\xff\xfe", strings.Repeat("x", 500), "",
}

func busyStatus() inspect.Status {
	s := inspect.Status{At: time.Unix(1_800_000_000, 0), QueueCount: 60, ProcessCount: 60, Dead: 60, Problems: []string{hostile[0]}}
	for n := range 60 {
		evil := hostile[n%len(hostile)]
		s.Queues = append(s.Queues, inspect.Queue{Name: fmt.Sprint(n, evil), Size: int64(n), NoConsumer: n%2 == 0, Paused: n%3 == 0})
		s.Processes = append(s.Processes, inspect.Process{
			Identity: fmt.Sprint(n, evil), State: inspect.StateAlive, Tag: evil, Queues: []string{evil, evil},
			Running: []inspect.Run{{Class: evil, JID: evil, Queue: evil, Thread: evil}},
		})
	}
	return s
}

func busyRedis() *fakeRedis {
	redis := &fakeRedis{status: busyStatus(), jobs: make(map[inspect.Place][]inspect.Entry)}
	for _, place := range inspect.Places() {
		for n := range 60 {
			evil := hostile[n%len(hostile)]
			entry := inspect.Entry{
				ID: fmt.Sprint(n, evil), In: "dead", Class: evil, Queue: evil, ErrorClass: evil, ErrorMessage: evil, Problem: evil, Payload: evil,
			}
			redis.jobs[place] = append(redis.jobs[place], entry)
		}
	}
	return redis
}

func TestTopFitsEveryWindowAndNothingFromRedisControlsIt(t *testing.T) {
	t.Parallel()
	p := newPage(t, busyRedis())
	for _, size := range [][2]int{{1, 1}, {3, 2}, {20, 5}, {40, 12}, {80, 24}, {250, 70}} {
		p.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, tab := range []string{"1", "2", "3", "4", "5", "6"} {
			p.keys(tab)
			for _, key := range []string{"home", "pgdown", "end", "p", "n", "Q", "n", "enter", "pgdown", "end", "esc", "?", "end", "esc"} {
				p.keys(key)
				lines := p.lines()
				require.LessOrEqual(t, len(lines), size[1])
				for _, line := range lines {
					require.LessOrEqual(t, lipgloss.Width(line), size[0], "%q in %v", line, size)
					for _, r := range ansi.Strip(line) {
						require.True(t, unicode.IsPrint(r), "%q in %q", r, line)
					}
				}
			}
		}
	}
	p.keys("3", "home")
	require.Contains(t, p.shown(), `\x1b[31mred\x1b[2J`)
}

func TestTopShowsEachTab(t *testing.T) {
	t.Parallel()
	redis := &fakeRedis{
		status: inspect.Status{
			At: time.Unix(1_800_000_000, 0), Enqueued: 7, QueueCount: 1, ProcessCount: 1, Dead: 1,
			Queues: []inspect.Queue{{Name: "mail", Size: 7, Paused: true}},
			Processes: []inspect.Process{{Identity: "vm:1:a", State: inspect.StateAlive, Busy: 1, Concurrency: 5, Queues: []string{"mail"},
				Running: []inspect.Run{{Class: "Welcome", JID: "j1", Queue: "mail"}}}},
		},
		jobs: map[inspect.Place][]inspect.Entry{
			inspect.PlaceRetry:     {{ID: "j4", In: "retries", Class: "Again", Queue: "mail", At: time.Unix(1_800_000_090, 0), Attempt: 3, MaxAttempts: 26}},
			inspect.PlaceScheduled: {{ID: "j5", In: "scheduled", Class: "Later", Queue: "mail", At: time.Unix(1_800_259_200, 0)}},
			inspect.PlaceDead:      {{ID: "j2", In: "dead", Class: "Farewell", Queue: "mail", At: time.Unix(1_799_999_000, 0), ErrorMessage: "refused"}},
		},
	}
	p := newPage(t, redis)
	require.Regexp(t, `vm:1:a +alive +1/5 +0 +mail`, p.shown())
	require.Contains(t, p.shown(), "enqueued 7")
	p.keys("tab")
	require.Regexp(t, `j1 +Welcome +mail +0s +vm:1:a`, p.shown())
	p.keys("3")
	require.Regexp(t, `mail +7 +0s +- +- +- +paused`, p.shown())
	p.keys("4")
	require.Regexp(t, `j4 +Again +mail +1m30s +3 of 26`, p.shown())
	p.keys("5")
	require.Regexp(t, `j5 +Later +mail +3 days +-`, p.shown())
	p.keys("6")
	require.Regexp(t, `j2 +Farewell +mail +16m40s +- +: refused`, p.shown())
	p.keys("tab")
	require.Contains(t, p.shown(), "PROCESS", "the first follows the last")
	slow := p.read()
	p.sets[tabDead] = nil
	p.keys("6")
	require.NotContains(t, p.shown(), "Farewell")
	p.do(slow)
	require.Contains(t, p.shown(), "Farewell", "it is read at once after a read that began for another tab")
	redis.status.At, redis.status.Processed = redis.status.At.Add(2*time.Second), 500
	p.keys("r")
	require.Contains(t, p.shown(), "250 jobs/s")
}

// An operator reads an error to its end, and copies a jid, while rows come and go below.
func TestTopShowsDetailsUntilTheyAreClosed(t *testing.T) {
	t.Parallel()
	jid, reason := "217d2cffc30f4a168b3a76d9", strings.Repeat("out of paper ", 40)+"in the end"
	redis := &fakeRedis{
		status: inspect.Status{
			At: time.Unix(1_800_000_000, 0), Queues: []inspect.Queue{{Name: "mail", Size: 7}},
			Processes: []inspect.Process{{Identity: "vm:1:a", Hostname: "vm", PID: 12, Running: []inspect.Run{{Class: "Welcome", JID: jid, Queue: "mail"}}}},
		},
		jobs: map[inspect.Place][]inspect.Entry{
			inspect.PlaceRunning: {{ID: jid, Class: "Welcome", Args: []byte(`["ada"]`)}},
			inspect.PlaceQueue:   {{ID: "next", Class: "Welcome", Args: []byte(`["bob"]`)}},
			inspect.PlaceDead:    {{ID: jid, In: "dead", Class: strings.Repeat("Farewell", 10), Queue: strings.Repeat("mail", 10), ErrorMessage: reason}},
		},
	}
	p := newPage(t, redis)
	shows := func(tab string, texts ...string) {
		t.Helper()
		p.keys(tab, "enter")
		for _, text := range texts {
			require.Contains(t, p.shown(), text)
		}
	}
	shows("1", "vm, process 12", jid)
	shows("2", jid, `["ada"]`)
	shows("3", "mail", "next", `["bob"]`)
	p.keys("6")
	p.send(tea.WindowSizeMsg{Width: 60, Height: 24})
	require.Contains(t, p.shown(), jid, "no column makes it narrower")
	shows("6", jid)
	require.Contains(t, strings.ReplaceAll(p.shown(), "\n", ""), reason)
	sheet := p.lines()[2:]
	redis.jobs, redis.status.Queues = nil, nil
	p.do(p.read())
	require.Equal(t, sheet, p.lines()[2:], "nothing moves under the mouse")
	p.keys("p", "y", "Q", "y")
	require.Empty(t, redis.acts, "the row is hidden")
	p.keys("esc")
	require.NotContains(t, p.shown(), "out of paper")
	p.keys("enter")
	require.Contains(t, p.shown(), "there is no row to show")
	p.keys("?")
	require.Contains(t, p.shown(), "pause or resume the selected queue")
	p.keys("enter", "3")
	require.Contains(t, p.shown(), "LATENCY")
	p.keys("1")
	redis.err = errors.New("connection refused")
	p.keys("2", "enter")
	require.Contains(t, p.shown(), "the rest cannot be read: connection refused")
}

// Rows come and go, so the selection is a queue or a process, not a line.
func TestTopKeepsItsSelectionInSight(t *testing.T) {
	t.Parallel()
	redis := &fakeRedis{}
	for n := range 50 {
		redis.status.Queues = append(redis.status.Queues, inspect.Queue{Name: fmt.Sprintf("q%02d", n)})
	}
	p := newPage(t, redis)
	p.keys("3", "end")
	require.Contains(t, p.shown(), "q49")
	require.NotContains(t, p.shown(), "q00")
	p.keys("up", "up")
	require.Equal(t, "q47", p.current().queue)
	redis.status.Queues = redis.status.Queues[10:]
	p.keys("r")
	require.Equal(t, "q47", p.current().queue)
	require.Contains(t, p.shown(), "q47")
	redis.status.Queues = redis.status.Queues[:5]
	p.keys("r")
	require.Equal(t, "q14", p.current().queue, "it has gone: the last one is the nearest")
	redis.status.Queues = nil
	p.keys("r", "down", "p")
	require.Contains(t, p.shown(), "select a queue first")
}

func TestTopActsOnlyAfterAYes(t *testing.T) {
	t.Parallel()
	redis := &fakeRedis{status: inspect.Status{
		Queues:    []inspect.Queue{{Name: "a", Paused: true}, {Name: "mail"}},
		Processes: []inspect.Process{{Identity: "vm:1:a"}, {Identity: "vm:2:b"}},
	}}
	p := newPage(t, redis)
	p.keys("3", "down", "p")
	require.Contains(t, p.shown(), "pause queue mail? [y/N]")
	for _, no := range []string{"n", "enter", "esc", "q", "p", "Q"} {
		p.keys(no)
		require.Contains(t, p.shown(), "nothing was done", no)
		p.keys("p")
	}
	redis.status.Queues = redis.status.Queues[:1] // the row under the selection is another one now
	p.do(p.read())
	require.Empty(t, redis.acts)
	p.keys("y")
	require.Equal(t, []string{"pause mail"}, redis.acts, "what was asked")
	require.Contains(t, p.shown(), "mail: paused")
	p.keys("p", "Y")
	require.Equal(t, "resume a", redis.acts[1])
	p.keys("1", "down", "Q")
	require.Contains(t, p.shown(), "quiet vm:2:b")
	p.keys("y")
	require.Equal(t, "quiet vm:2:b", redis.acts[2])
	redis.err = errors.New("no\x1b[31m permission redis://:SECRET@h")
	p.keys("Q", "y")
	require.Contains(t, p.shown(), `no\x1b[31m permission`)
	require.NotContains(t, p.shown(), "SECRET")
}

func TestTopSaysThatRedisIsAwayAndGoesOn(t *testing.T) {
	t.Parallel()
	redis := &fakeRedis{status: inspect.Status{At: time.Unix(1_800_000_000, 0), Queues: []inspect.Queue{{Name: "mail"}}}}
	p := newPage(t, redis)
	p.keys("3")
	redis.err = errors.New("connection refused")
	p.keys("r")
	require.Contains(t, p.shown(), "Redis cannot be read, trying again: connection refused")
	require.Contains(t, p.shown(), "mail", "what was read last stays")
	redis.err = nil
	p.keys("r")
	require.NotContains(t, p.shown(), "cannot be read")
	p.read() // and no answer
	p.reading = time.Now().Add(-5 * time.Second)
	require.Contains(t, p.shown(), "Redis has not answered for 5 s")
	require.Nil(t, p.read(), "one read at a time")
}

func TestTopRequiresATerminal(t *testing.T) {
	t.Parallel()
	answer := newHouse(t).invoke("", "top")
	require.Equal(t, exitUsage, answer.code)
	require.Contains(t, answer.errs, "belay status")
	require.Contains(t, newHouse(t).invoke("", "top", "--every", "1ms").errs, "at least 100ms")
}
