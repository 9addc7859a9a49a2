package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

func TestATinyDrainFromTheCommandLineToItsFiles(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "out")
	var stdout, stderr bytes.Buffer
	command := newCommand(&stdout, &stderr)
	command.SetArgs([]string{"drain", "--jobs", "500", "--peers", "none", "--client", "rueidis", "--repeat", "2", "--out", out})
	require.NoError(t, command.ExecuteContext(bounded(t)), stderr.String())
	require.Contains(t, stdout.String(), "Belay, rueidis")
	require.Contains(t, stderr.String(), "2/2 Belay, rueidis")

	text, err := os.ReadFile(filepath.Join(out, "drain.json"))
	require.NoError(t, err)
	var r report.Result
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, "drain", r.Measure)
	require.NotEmpty(t, r.Versions["redis"])
	require.Positive(t, r.Machine.Cores)
	require.Empty(t, r.LeftOut, "none was asked for")
	found := map[string]int{}
	for _, row := range r.Rows {
		require.Len(t, row.Values, 2, "one a repeat")
		require.LessOrEqual(t, row.Min, row.Median)
		require.LessOrEqual(t, row.Median, row.Max)
		if row.Metric == "jobs/s" {
			found[row.Subject]++
			require.Positive(t, row.Median)
		}
	}
	require.Equal(t, map[string]int{
		"Belay, rueidis": 3, "bare scripts, rueidis": 1,
	}, found)
	for _, name := range []string{"report.md", "drain.svg"} {
		require.FileExists(t, filepath.Join(out, name))
	}
}

func TestAReportKeepsTheSectionsOfWhatElseLiesInItsFolder(t *testing.T) {
	out := t.TempDir()
	tiny := []string{"--jobs", "200", "--peers", "none", "--client", "go-redis", "--out", out}
	_, err := benched(t, append([]string{"memory", "--repeat", "2"}, tiny...)...)
	require.NoError(t, err)
	alone, err := os.ReadFile(filepath.Join(out, "report.md"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(alone), "- command: "))
	_, err = benched(t, append([]string{"drain", "--repeat", "1"}, tiny...)...)
	require.NoError(t, err)
	both, err := os.ReadFile(filepath.Join(out, "report.md"))
	require.NoError(t, err)
	for _, text := range []string{
		"## Draining a full queue", "## Memory of a queued job", "go run ./bench memory --repeat 2", "go run ./bench drain --repeat 1", "of several runs of the bench",
	} {
		require.Contains(t, string(both), text)
	}
	line := regexp.MustCompile(`(?m)^\| Belay, go-redis \|  \| 2 .*$`)
	require.Equal(t, line.FindString(string(alone)), line.FindString(string(both)), "with its spread and all")
	require.NotEmpty(t, line.FindString(string(both)))

	require.NoError(t, os.WriteFile(filepath.Join(out, "memory.json"), []byte(`{"theirs":1}`), 0o644))
	_, err = benched(t, append([]string{"drain"}, tiny...)...)
	require.ErrorContains(t, err, "memory.json")
	require.ErrorContains(t, err, "name another folder")
}

func TestEveryMeasureOfFullQueuesRuns(t *testing.T) {
	b := quietBench(t)
	b.jobs, b.repeat, b.client = 300, 1, "go-redis"
	for _, m := range []measurement{enqueueMeasure, memoryMeasure} {
		r, err := b.measure(bounded(t), m)
		require.NoError(t, err, m.name)
		for _, metric := range r.Metrics {
			row := r.Best(func(row report.Row) bool { return row.Kind == report.Belay })
			require.NotNil(t, row, "%s: %s", m.name, metric.Name)
			require.Positive(t, row.Median, "%s: %s", m.name, metric.Name)
		}
	}
	turn := b.backlogTurn(&report.Result{}, b.belays()[0], subject.Task{Measure: "backlog", Jobs: 300, Backlog: 500, Concurrency: 5})
	_, err := turn.run(bounded(t))
	require.NoError(t, err)
	reply := b.look.Do(t.Context(), driver.Command("LLEN", "queue:default"))[0]
	require.NoError(t, reply.Err)
	left, ok := reply.Value.(int64)
	require.True(t, ok)
	require.Greater(t, left, int64(100), "the queue is kept long: as many are pushed as end")
}

func TestAPeerThatCannotBeMadeReadyIsLeftOutAloud(t *testing.T) {
	var progress bytes.Buffer
	b := quietBench(t)
	b.progress, b.options.peers = &progress, []string{"absent"}
	absent := peer{flag: "absent", name: "Absent", prepare: func(context.Context, *house) (subject.Command, error) {
		return subject.Command{}, errors.New("its runtime is not here")
	}}
	require.NoError(t, b.preparePeers(t.Context(), []peer{absent}))
	require.Contains(t, progress.String(), "left out: Absent: its runtime is not here")

	r, err := b.measure(t.Context(), measurement{name: "any", metrics: drainMeasure.metrics, run: func(_ context.Context, b *bench, r *report.Result) error {
		require.Empty(t, b.able(r))
		r.Add(report.Row{Subject: "Belay", Metric: "jobs/s"}, 1)
		return nil
	}})
	require.NoError(t, err)
	require.Equal(t, []report.LeftOut{{Subject: "Absent", Why: "its runtime is not here"}}, r.LeftOut)
	require.Contains(t, report.Table(r), "Left out: Absent: its runtime is not here")
	require.Contains(t, report.Markdown([]*report.Result{r}), "Left out: Absent: its runtime is not here")
}

func TestARuntimeThatIsNotHereIsInstalledOnlyWhenThatIsAllowed(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "tools"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "tools", "need"), []byte("#!/bin/sh\necho \"$@\" >asked\n"), 0o755))
	prepared := 0
	far := peer{name: "Far", needs: []string{"no-such-runtime:far-runtime", "sh:dash"}, prepare: func(context.Context, *house) (subject.Command, error) {
		prepared++
		return subject.Command{}, nil
	}}
	h := &house{root: root, progress: new(bytes.Buffer)}
	_, err := h.ready(t.Context(), far)
	require.ErrorContains(t, err, "no-such-runtime is not here")
	require.ErrorContains(t, err, "apt-get install far-runtime")
	require.ErrorContains(t, err, "--install")
	require.NoFileExists(t, filepath.Join(root, "asked"))
	require.Zero(t, prepared)

	h.install = true
	_, err = h.ready(t.Context(), far)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "asked"))
	require.Equal(t, 1, prepared)
}

func TestAPeerThatCannotDoAMeasureIsLeftOutOfIt(t *testing.T) {
	b := &bench{progress: new(bytes.Buffer), peers: []contender{
		{name: "River", cannot: map[string]string{"memory": "rows"}}, {name: "asynq"},
	}}
	memory, drain := &report.Result{Measure: "memory"}, &report.Result{Measure: "drain"}
	require.Len(t, b.able(memory), 1)
	require.Equal(t, []report.LeftOut{{Subject: "River", Why: "rows"}}, memory.LeftOut)
	require.Len(t, b.able(drain), 2)
	require.Empty(t, drain.LeftOut)
}

func TestAnHoursRescueIsNotWaitedFor(t *testing.T) {
	for _, p := range allPeers() {
		require.Equal(t, p.postgres, p.cannot["recovery"] != "" && p.cannot["rtt"] != "", p.name)
		if p.postgres {
			require.Contains(t, p.cannot["recovery"], "an hour", p.name)
		}
	}
}

func TestAtAGivenConcurrencyNoLibraryIsAtItsBest(t *testing.T) {
	b := &bench{options: options{concurrency: 7}, peers: []contender{{name: "asynq", kind: report.Peer}}}
	require.Empty(t, slices.DeleteFunc(b.drainTurns(&report.Result{}), func(turn turn) bool { return turn.what != "its best" }))
	b.concurrency = 0
	best := slices.DeleteFunc(b.drainTurns(&report.Result{}), func(turn turn) bool { return turn.what != "its best" })
	require.Len(t, best, 3, "Belay over two clients, and the peer")
}

func TestRounds(t *testing.T) {
	var order []string
	turnOf := func(name string, kind report.Kind, errs ...error) turn {
		return turn{who: contender{name: name, kind: kind}, what: "drain", run: func(context.Context) (string, error) {
			order = append(order, name)
			if len(errs) > 0 {
				return "", errs[0]
			}
			return "", nil
		}}
	}
	b := &bench{progress: new(bytes.Buffer)}

	t.Run("are interleaved, and a peer that fails is left out from then on", func(t *testing.T) {
		order = nil
		r := &report.Result{}
		turns := []turn{turnOf("Belay", report.Belay), turnOf("broken", report.Peer, errors.New("no\n\nluck")), turnOf("asynq", report.Peer)}
		require.NoError(t, b.rounds(t.Context(), r, 2, turns))
		require.Equal(t, []string{"Belay", "broken", "asynq", "Belay", "asynq"}, order)
		require.Equal(t, []report.LeftOut{{Subject: "broken", Why: "run 1 of 2, drain: no luck"}}, r.LeftOut)
	})
	t.Run("end with Belay's failure", func(t *testing.T) {
		require.ErrorContains(t, b.rounds(t.Context(), &report.Result{}, 2, []turn{turnOf("Belay", report.Belay, errors.New("lost one"))}), "lost one")
	})
	t.Run("end when they are interrupted, and report no failure", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := &report.Result{}
		require.ErrorIs(t, b.rounds(ctx, r, 2, []turn{turnOf("asynq", report.Peer, errors.New("killed"))}), context.Canceled)
		require.Empty(t, r.LeftOut)
	})
}

func TestARedisThatIsInUseIsRefusedAndLeftAsItIs(t *testing.T) {
	url := "redis://" + drivertest.Start(t).Addr() + "/3"
	conn, err := openClient("go-redis", url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.Do(t.Context(), driver.Command("SET", "theirs", "1"))[0].Err)
	_, err = openBench(t.Context(), options{redis: url}, new(bytes.Buffer))
	require.ErrorContains(t, err, "holds 1 keys and would be emptied")
	require.Equal(t, "1", conn.Do(t.Context(), driver.Command("GET", "theirs"))[0].Value)
}

func TestARedisThatComesIntoUseBeforeTheFirstRunIsLeftAsItIs(t *testing.T) {
	url := "redis://" + drivertest.Start(t).Addr() + "/3"
	b, err := openBench(t.Context(), options{redis: url}, new(bytes.Buffer))
	require.NoError(t, err)
	conn, err := openClient("go-redis", url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.Do(t.Context(), driver.Command("SET", "theirs", "1"))[0].Err)
	_, err = b.do(bounded(t), b.belays()[0], subject.Task{Measure: "drain", Jobs: 50, Concurrency: 5}, nil)
	b.close()
	require.ErrorContains(t, err, "holds 1 keys and would be emptied")
	require.Equal(t, "1", conn.Do(t.Context(), driver.Command("GET", "theirs"))[0].Value)
}

func TestARedisOfTheirsIsLeftEmptyAndRunning(t *testing.T) {
	url := "redis://" + drivertest.Start(t).Addr() + "/3"
	b, err := openBench(t.Context(), options{redis: url}, new(bytes.Buffer))
	require.NoError(t, err)
	_, err = b.do(bounded(t), b.belays()[0], subject.Task{Measure: "drain", Jobs: 50, Concurrency: 5}, nil)
	require.NoError(t, err)
	b.close()
	conn, err := openClient("rueidis", url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.Equal(t, int64(0), conn.Do(t.Context(), driver.Command("DBSIZE"))[0].Value)
}

func TestOptions(t *testing.T) {
	o := options{jobs: -1, repeat: -2, client: "carrier pigeon", peers: []string{"asynq", "cron"}}
	err := o.check()
	for _, text := range []string{"--jobs -1", "--repeat -2", `--client "carrier pigeon"`, `--peers "cron"`, "asynq,sidekiq,bullmq,river"} {
		require.ErrorContains(t, err, text)
	}
	o = options{peers: []string{"none"}}
	require.NoError(t, o.check())
	require.Empty(t, o.peers)

	o = options{jobs: 1_000_000_000_000, concurrency: 1_000_000, out: filepath.Join(t.TempDir(), "new")}
	err = o.check()
	require.ErrorContains(t, err, "--jobs 1000000000000: it must be at most 100000000")
	require.ErrorContains(t, err, "--concurrency 1000000: it must be at most")
	require.NoDirExists(t, o.out, "nothing is made for what does not run")

	require.Equal(t, 3, (&options{}).repeats(3, 7))
	require.Equal(t, 7, (&options{full: true}).repeats(3, 7))
	require.Equal(t, 5, (&options{full: true, repeat: 5}).repeats(3, 7))
	slow, faster := contender{}, contender{times: 2}
	require.Equal(t, 20, (&options{jobs: 200}).peerSize(slow, 20, 100), "a slow peer is given what takes it some seconds")
	require.Equal(t, 40, (&options{jobs: 200}).peerSize(faster, 20, 100))
	require.Equal(t, 10, (&options{jobs: 10}).peerSize(faster, 20, 100))
	require.Equal(t, 200, (&options{jobs: 200, full: true}).peerSize(slow, 20, 100))
}

func TestAFlagWithoutAUseIsRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"enqueue", "--profile", "f"}, []string{"--profile: enqueue does not use it"}},
		{[]string{"fleet", "--jobs", "3", "--concurrency", "2"}, []string{"--jobs: fleet does not use it", "--concurrency: fleet does not use it"}},
		{[]string{"backlog", "--peers", "asynq"}, []string{"--peers: backlog does not use it"}},
		{[]string{"guard", "--jobs", "3", "--repeat", "1", "--out", "x", "--client", "rueidis"}, []string{"--jobs: guard", "--repeat: guard", "--out: guard", "--client: guard"}},
		{[]string{"drain", "--jobs", "0", "--repeat", "0", "--concurrency", "0"}, []string{"--jobs 0: it must be at least 1", "--repeat 0", "--concurrency 0"}},
	} {
		_, err := benched(t, c.args...)
		for _, text := range c.says {
			require.ErrorContains(t, err, text)
		}
	}
	none := options{peers: []string{"none"}, given: map[string]bool{"peers": true}}
	require.NoError(t, none.refuse("backlog", backlogMeasure.noUseFor()), "none is what it has")
	for _, m := range allMeasures() {
		for _, flag := range m.noUseFor() {
			require.NotNil(t, newCommand(nil, nil).PersistentFlags().Lookup(flag), "%s: %s", m.name, flag)
			require.Contains(t, m.help(), "--"+flag)
		}
	}
}

func TestInfo(t *testing.T) {
	value, found := fieldOf("# Clients\r\nconnected_clients:3\r\nused:4\r\n", "used")
	require.True(t, found)
	require.Equal(t, "4", value)
	require.InDelta(t, 12, callsOf("cmdstat_eval:calls=1,usec=2\r\ncmdstat_evalsha:calls=12,usec=5\r\n", "evalsha"), 0)
	require.Zero(t, callsOf("cmdstat_eval:calls=1,usec=2\r\n", "evalsha"))
}

func TestCopyFilesLeavesWhatNpmMade(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	require.NoError(t, os.MkdirAll(filepath.Join(from, "node_modules", "x"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "node_modules", "x", "y.js"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(from, "peer.mjs"), []byte("hello"), 0o644))
	require.NoError(t, copyFiles(from, to))
	text, err := os.ReadFile(filepath.Join(to, "peer.mjs"))
	require.NoError(t, err)
	require.Equal(t, "hello", string(text))
	require.NoDirExists(t, filepath.Join(to, "node_modules"))
}
