package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/metrics"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// patience bounds every wait. It is far longer than any wait takes, so that only a hang exceeds it.
const patience = 30 * time.Second

// connect returns a client of a keyspace of its own, with its connection and its prefix.
func connect(t *testing.T, open func(url string) (driver.Client, error)) (client *belay.Client, redis driver.Client, prefix string) {
	t.Helper()
	redis, err := open(drivertest.Redis(t).URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, redis.Close()) })
	prefix = strings.TrimSuffix(drivertest.Prefix(t), ":")
	client, err = belay.NewClient(redis, &belay.ClientConfig{Prefix: prefix})
	require.NoError(t, err)
	return client, redis, prefix
}

// worked returns a Collector of a server that has run four jobs: three succeeded, and one failed.
func worked(t *testing.T, open func(url string) (driver.Client, error)) *metrics.Collector {
	t.Helper()
	client, redis, prefix := connect(t, open)
	server, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("mail"), Concurrency: 3, PollWait: time.Hour})
	require.NoError(t, err)
	server.HandleRaw("Welcome", func(context.Context, *belay.Job) error { return nil })
	server.HandleRaw("Broken", func(context.Context, *belay.Job) error { return errors.New("no") })
	for _, class := range []string{"Welcome", "Welcome", "Welcome", "Broken"} {
		_, err := client.Push(t.Context(), belay.RawJob{Class: class, Queue: "mail"})
		require.NoError(t, err)
	}
	require.NoError(t, redis.Do(t.Context(), driver.Command("SADD", prefix+":queues", "odd\xff"))[0].Err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	fleet := inspect.FleetOf(client)
	deadline := time.Now().Add(patience)
	for {
		sizes, err := fleet.Sizes(t.Context())
		require.NoError(t, err)
		if sizes.Processed == 4 {
			break
		}
		require.True(t, time.Now().Before(deadline), "the runs did not end in time: %+v", sizes)
		time.Sleep(5 * time.Millisecond)
	}
	return metrics.New(metrics.Config{Server: server, Fleet: fleet})
}

// Any program can write such names into Redis, and two metrics with one label would fail the whole scrape.
func TestNoTwoNamesHaveOneLabel(t *testing.T) {
	t.Parallel()
	client, redis, prefix := connect(t, adapters.Open["go-redis"])
	names := []string{"\xff", `\xff`, `\\xff`, "\\\xff", `\\\xff`, `App\Mail`, "a\xff\x80", `a\xff\x80`, "\uFFFD", `\`, `"`, "\"\xff"}
	require.NoError(t, redis.Do(t.Context(), driver.Command(append([]string{"SADD", prefix + ":queues"}, names...)...))[0].Err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics.New(metrics.Config{Fleet: inspect.FleetOf(client)})))
	families, err := registry.Gather()
	require.NoError(t, err)
	labels := map[string]bool{}
	for _, family := range families {
		if family.GetName() != "belay_queue_jobs" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels[metric.GetLabel()[0].GetValue()] = true
		}
	}
	require.Len(t, labels, len(names))
	for _, name := range []string{`\xff`, `App\Mail`, "\uFFFD", `\`, `"`} {
		require.True(t, labels[name], "%s: an ordinary name stays as it is, and a byte is spelled", name)
	}
}

func TestCollector(t *testing.T) {
	t.Parallel()
	for name, open := range adapters.Open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collector := worked(t, open)
			registry := prometheus.NewPedanticRegistry()
			require.NoError(t, registry.Register(collector))
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP belay_jobs_total Runs that ended, and jobs that were dropped without a run, by outcome: done, retry, dead, discarded, snoozed, requeued, waits, cancelled or expired.
# TYPE belay_jobs_total counter
belay_jobs_total{class="Broken",outcome="retry",queue="mail"} 1
belay_jobs_total{class="Welcome",outcome="done",queue="mail"} 3
# HELP belay_processors Jobs that may run at once in this process.
# TYPE belay_processors gauge
belay_processors 3
# HELP belay_retry_jobs Failed jobs that wait for their next run.
# TYPE belay_retry_jobs gauge
belay_retry_jobs 1
# HELP belay_queue_jobs Jobs that wait in a queue: of the 1,000 queues with the most jobs.
# TYPE belay_queue_jobs gauge
belay_queue_jobs{queue="mail"} 0
belay_queue_jobs{queue="odd\\xff"} 0
`), "belay_jobs_total", "belay_processors", "belay_retry_jobs", "belay_queue_jobs"))
			families, err := registry.Gather()
			require.NoError(t, err)
			found := map[string]float64{}
			for _, family := range families {
				for _, metric := range family.GetMetric() {
					found[family.GetName()] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
				}
			}
			require.InDelta(t, 3.0, found["belay_job_duration_seconds"], 0, "of successful runs")
			require.InDelta(t, 4.0, found["belay_job_wait_seconds"], 0)
			require.Positive(t, found["belay_redis_round_trip_seconds"])
			require.InDelta(t, 1.0, found["belay_redis_up"], 0)
			require.InDelta(t, 4.0, found["belay_fleet_processed_total"], 0)
			require.InDelta(t, 1.0, found["belay_processes"], 0)
		})
	}
}

// The dashboard serves the figures of a fleet whose workers are all killed: nothing removes their records then.
func TestProcessesFallToZeroWhenTheFleetIsKilled(t *testing.T) {
	t.Parallel()
	for name, open := range adapters.Open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, redis, prefix := connect(t, open)
			collector := metrics.New(metrics.Config{Fleet: inspect.FleetOf(client)})
			expect := func(lease time.Time, want int) {
				for _, reply := range redis.Do(t.Context(), driver.Command("SADD", prefix+":processes", "h:1:aa"),
					driver.Command("ZADD", prefix+":belay:alive", strconv.FormatInt(lease.UnixMilli(), 10), "h:1:aa")) {
					require.NoError(t, reply.Err)
				}
				require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(fmt.Sprintf(`
# HELP belay_processes Worker processes that are alive, including those of Sidekiq.
# TYPE belay_processes gauge
belay_processes %d
`, want)), "belay_processes"))
			}
			expect(time.Now().Add(time.Hour), 1)
			expect(time.Now().Add(-time.Hour), 0)
		})
	}
}

// A scrape has no more series than this, whatever names are in Redis.
func TestLimitsAreExposedForTheFirstHundred(t *testing.T) {
	t.Parallel()
	for name, open := range adapters.Open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, redis, prefix := connect(t, open)
			calls := []driver.Call{
				driver.Command("HSET", prefix+":belay:gates", "a:1\nr", "2", "a:2\nr", "3"),
				driver.Command("LPUSH", prefix+":belay:waiting:a:1", "mail\n{}", "mail\n{}"), driver.Command("ZADD", prefix+":belay:waiting", "1", "a:1"),
			}
			for n := range 150 {
				calls = append(calls, driver.Command("HSET", prefix+":belay:limits", fmt.Sprintf("b%03d", n), "5 none 0 0 code 0"))
			}
			for _, reply := range redis.Do(t.Context(), calls...) {
				require.NoError(t, reply.Err)
			}
			registry := prometheus.NewPedanticRegistry()
			require.NoError(t, registry.Register(metrics.New(metrics.Config{Fleet: inspect.FleetOf(client)})))
			families, err := registry.Gather()
			require.NoError(t, err)
			found := map[string]float64{}
			for _, family := range families {
				if strings.HasPrefix(family.GetName(), "belay_limit_") {
					require.Len(t, family.GetMetric(), 100)
					require.Equal(t, "a", family.GetMetric()[0].GetLabel()[0].GetValue())
					found[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
				}
			}
			require.Equal(t, map[string]float64{"belay_limit_running": 5, "belay_limit_waiting": 2}, found)
		})
	}
}

func TestForServerHasAConnectionOfItsOwnUntilTheServerHasStopped(t *testing.T) {
	t.Parallel()
	for name, open := range adapters.Open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := drivertest.Start(t)
			driver, err := open(redis.URL())
			require.NoError(t, err)
			client, err := belay.NewClient(driver, &belay.ClientConfig{Prefix: "shop"})
			require.NoError(t, err)
			defer func() { require.NoError(t, driver.Close()) }()
			server, err := belay.NewServer(client, belay.ServerConfig{Concurrency: 3})
			require.NoError(t, err)
			server.HandleUnknown(func(context.Context, *belay.Job) error { return nil })
			handler, err := metrics.ForServer(client, server)
			require.NoError(t, err)
			started := make(chan struct{})
			server.OnStart(func(context.Context) error { close(started); return nil })
			done := make(chan error, 1)
			go func() { done <- server.Run(t.Context()) }()
			<-started
			scrape := func() string {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				require.Equal(t, http.StatusOK, recorder.Code)
				return recorder.Body.String()
			}
			text := scrape()
			require.Contains(t, text, "belay_processors 3\n")
			require.Contains(t, text, "belay_redis_up 1\n")
			server.Stop()
			require.NoError(t, <-done)
			require.Contains(t, scrape(), "belay_redis_up 0\n", "its connection is closed")
		})
	}
}

func TestClassesBeyondTheBoundAreOne(t *testing.T) {
	t.Parallel()
	redis, err := goredisdriver.Open(drivertest.Redis(t).URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, redis.Close()) }()
	client, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: strings.TrimSuffix(drivertest.Prefix(t), ":")})
	require.NoError(t, err)
	server, err := belay.NewServer(client, belay.ServerConfig{Concurrency: 1})
	require.NoError(t, err)
	ran := make(chan string, 10)
	server.HandleUnknown(func(_ context.Context, j *belay.Job) error { ran <- j.Class(); return nil })
	for n := range 10 {
		_, err := client.Push(t.Context(), belay.RawJob{Class: fmt.Sprint("Class", n)})
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	for range 10 {
		<-ran
	}
	stop()
	require.NoError(t, <-done)
	collector := metrics.New(metrics.Config{Server: server, MaxClasses: 3})
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP belay_jobs_total Runs that ended, and jobs that were dropped without a run, by outcome: done, retry, dead, discarded, snoozed, requeued, waits, cancelled or expired.
# TYPE belay_jobs_total counter
belay_jobs_total{class="(other)",outcome="done",queue="default"} 7
belay_jobs_total{class="Class0",outcome="done",queue="default"} 1
belay_jobs_total{class="Class1",outcome="done",queue="default"} 1
belay_jobs_total{class="Class2",outcome="done",queue="default"} 1
`), "belay_jobs_total"))
}

func TestBatchesAreCountedByState(t *testing.T) {
	t.Parallel()
	for name, open := range adapters.Open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis, err := open(drivertest.Redis(t).URL())
			require.NoError(t, err)
			defer func() { require.NoError(t, redis.Close()) }()
			client, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: strings.TrimSuffix(drivertest.Prefix(t), ":")})
			require.NoError(t, err)
			collector := metrics.New(metrics.Config{Fleet: inspect.FleetOf(client)})
			require.Equal(t, 6, testutil.CollectAndCount(collector, "belay_batches"), "a zero for each state")
			_, err = client.NewBatch(t.Context(), belay.BatchConfig{})
			require.NoError(t, err)
			_, err = belay.NewBatch(t.Context(), client, belay.BatchConfig{}, func(b *belay.Batch) error {
				_, err := client.Push(t.Context(), belay.RawJob{Class: "Row", Batch: b})
				return err
			})
			require.NoError(t, err)
			require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP belay_batches Batches that are open, running, complete, dead or over, and not deleted yet: of the 256 that are kept the longest. The others, as a rule over, have the state "other".
# TYPE belay_batches gauge
belay_batches{state="complete"} 0
belay_batches{state="dead"} 0
belay_batches{state="open"} 1
belay_batches{state="other"} 0
belay_batches{state="over"} 0
belay_batches{state="running"} 1
`), "belay_batches"))
		})
	}
}

func TestAScrapeOfARedisThatIsAway(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	redis, err := goredisdriver.Open(server.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, redis.Close()) }()
	client, err := belay.NewClient(redis, nil)
	require.NoError(t, err)
	collector := metrics.New(metrics.Config{Fleet: inspect.FleetOf(client)})
	require.Greater(t, testutil.CollectAndCount(collector), 5)
	server.Kill()
	require.Equal(t, 1, testutil.CollectAndCount(collector, "belay_redis_up"))
	require.Equal(t, 1, testutil.CollectAndCount(collector), "no series that shows an empty Redis")
}

func TestEachShardHasItsLabelAndOneThatIsAwayHidesNoOther(t *testing.T) {
	t.Parallel()
	a, b := drivertest.Start(t), drivertest.Start(t)
	client, err := belay.Open(t.Context(), a.URL(), &belay.ClientConfig{Shards: []belay.Shard{{Name: "a", URL: a.URL()}, {Name: "b", URL: b.URL()}}})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	do(t, a, "SADD", "queues", "mail")
	do(t, b, "SADD", "queues", "mail")
	do(t, b, "LPUSH", "queue:mail", `{"class":"Welcome","args":[],"jid":"b","queue":"mail"}`)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics.New(metrics.Config{Fleet: inspect.FleetOf(client)})))
	exposed := func(up, jobs string) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP belay_queue_jobs Jobs that wait in a queue: of the 1,000 queues with the most jobs.
# TYPE belay_queue_jobs gauge
belay_queue_jobs{queue="mail",shard="a"} 0
`+jobs+`
# HELP belay_redis_up 1 if Redis could be read in this scrape, otherwise 0.
# TYPE belay_redis_up gauge
belay_redis_up{shard="a"} 1
belay_redis_up{shard="b"} `+up+`
`), "belay_queue_jobs", "belay_redis_up"))
	}
	exposed("1", `belay_queue_jobs{queue="mail",shard="b"} 1`)
	b.Kill()
	exposed("0", "")
}

// A scrape must cost Redis less than 2 ms with 200 queues. Half of them have a backlog, and a set is large.
func TestAScrapeIsCheap(t *testing.T) {
	t.Parallel()
	for name, open := range adapters.Open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t)
			redis, err := open(server.URL())
			require.NoError(t, err)
			defer func() { require.NoError(t, redis.Close()) }()
			client, err := belay.NewClient(redis, nil)
			require.NoError(t, err)
			for n := range 200 {
				jobs := make([]belay.RawJob, 100)
				for i := range jobs {
					jobs[i] = belay.RawJob{Class: "A", Queue: fmt.Sprint("queue-", n), Args: []any{"some", "arguments", i}}
				}
				_, err := client.PushMany(t.Context(), slices.Values(jobs))
				require.NoError(t, err)
			}
			collector := metrics.New(metrics.Config{Fleet: inspect.FleetOf(client)})
			const most = 2000.0 // microseconds
			least := 1e9
			for try := 0; try < 50 && (try < 5 || least >= most); try++ { // a busy machine interrupts Redis in many
				do(t, server, "CONFIG", "RESETSTAT")
				require.Greater(t, testutil.CollectAndCount(collector), 800)
				least = min(least, commandTime(t, server))
			}
			t.Logf("a scrape with 200 queues takes Redis %.0f µs", least)
			require.Less(t, least, most)
		})
	}
}

func do(t *testing.T, server *drivertest.Server, words ...string) any {
	t.Helper()
	value, err := server.Do(t.Context(), words...)
	require.NoError(t, err)
	return value
}

// commandTime returns the number of microseconds that Redis has spent on commands.
func commandTime(t *testing.T, server *drivertest.Server) (sum float64) {
	t.Helper()
	text, _ := do(t, server, "INFO", "commandstats").(string)
	for line := range strings.Lines(text) {
		_, rest, found := strings.Cut(line, ",usec=")
		if !found || strings.HasPrefix(line, "cmdstat_info") || strings.HasPrefix(line, "cmdstat_config") {
			continue
		}
		var usec float64
		_, _ = fmt.Sscan(strings.Split(rest, ",")[0], &usec)
		sum += usec
	}
	return sum
}

func TestPrometheusScrapesIt(t *testing.T) {
	t.Parallel()
	collector := worked(t, adapters.Open["go-redis"])
	exposed := httptest.NewServer(metrics.Handler(collector))
	defer exposed.Close()
	check(t, get(t, exposed.URL), "check", "metrics")
	rules, err := filepath.Glob("../contrib/prometheus/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, rules)
	check(t, "", append([]string{"check", "rules"}, rules...)...)

	absolute, err := filepath.Abs(rules[0])
	require.NoError(t, err)
	address, log := startPrometheus(t, exposed.URL, absolute)
	for query, want := range map[string]string{
		`sum(belay_jobs_total{outcome="done"})`:           "3",
		`belay_retry_jobs`:                                "1",
		`max by (queue) (belay_queue_jobs{queue="mail"})`: "0",
		`sum(belay_job_wait_seconds_count)`:               "4",
		`histogram_quantile(0.5, sum by (le) (belay_job_duration_seconds_bucket)) < bool 10`: "1",
		`up{job="belay"}`: "1",
	} {
		deadline := time.Now().Add(patience)
		for got := ""; got != want; got = ask(address, query) {
			require.True(t, time.Now().Before(deadline), "%s is %s\n%s", query, got, log)
			time.Sleep(50 * time.Millisecond)
		}
	}
	requireDashboard(t, address, get(t, exposed.URL), absolute)
}

// Each alert rule is tested, firing and not.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	const tests = "testdata/alerts.yml"
	check(t, "", "test", "rules", tests)
	rules, err := os.ReadFile("../contrib/prometheus/belay.rules.yml")
	require.NoError(t, err)
	tested, err := os.ReadFile(tests)
	require.NoError(t, err)
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.Greater(t, len(alerts), 9)
	for _, alert := range alerts {
		require.Regexp(t, `\{alertname: `+alert[1]+`, eval_time: \w+\}`, string(tested), "a time at which it does not fire")
		require.Regexp(t, `- alertname: `+alert[1]+`\n +eval_time: \w+\n +exp_alerts:`, string(tested), "a time at which it fires")
	}
}

// startPrometheus runs a Prometheus until the test ends that scrapes a URL five times a second. It returns its
// address and its log.
func startPrometheus(t *testing.T, scraped, rules string) (address string, log *drivertest.Buffer) {
	t.Helper()
	folder := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 200ms, evaluation_interval: 200ms}\nrule_files: [%q]\nscrape_configs:\n  - job_name: belay\n    static_configs: [{targets: [%q]}]\n",
		rules, strings.TrimPrefix(scraped, "http://"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "prometheus.yml"), []byte(config), 0o600))
	address = drivertest.FreeAddr(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	prom := exec.CommandContext(ctx, tool(t, "prometheus"), "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	log = &drivertest.Buffer{}
	prom.Stdout, prom.Stderr = log, log
	require.NoError(t, prom.Start())
	t.Cleanup(func() {
		stop()
		_ = prom.Wait()
	})
	return address, log
}

// tool finds a program of Debian's package prometheus.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "run tools/need, or install Debian's package prometheus")
	return path
}

// check runs promtool, which must have nothing to say against it.
func check(t *testing.T, input string, words ...string) {
	t.Helper()
	cmd := exec.Command(tool(t, "promtool"), words...)
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

// ask is the value of a query; empty while there is none.
func ask(address, query string) string {
	found := series(address, query)
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprint(found[0].Value[1])
}

// A result is one series of a query's result.
type result struct {
	Metric map[string]string
	Value  [2]any
}

// series is the result of a query; nothing if there is no answer.
func series(address, query string) []result {
	answer, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return nil
	}
	defer func() { _ = answer.Body.Close() }()
	var found struct{ Data struct{ Result []result } }
	if json.NewDecoder(answer.Body).Decode(&found) != nil {
		return nil
	}
	return found.Data.Result
}

func TestNewNeedsSomethingToExpose(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "metrics: New: the Config has neither a Server nor a Fleet: nothing would be exposed", func() { metrics.New(metrics.Config{}) })
}
