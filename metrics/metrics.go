package metrics

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belayq/belay"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// Config configures a Collector. At least one of Server and Fleet must be set.
type Config struct {
	// Server is a server of this process, whose counters are exposed. Default: none.
	Server *belay.Server
	// Fleet reads the figures of the whole fleet from Redis; make it with inspect.FleetOf. All processes that
	// expose them expose the same figures, so a query should take their maximum. With shards, each figure has
	// the label shard, and a shard that is away lacks all but redis_up. Default: none.
	Fleet *inspect.Fleet
	// Timeout is the deadline for reading from Redis in a scrape. Default: 1 s.
	Timeout time.Duration
	// MaxClasses bounds the number of classes with their own metrics: the first ones that ran. All others are
	// counted as "(other)". Each class has about fifty series for each of its queues. Default: 100.
	MaxClasses int
}

// A Collector is a prometheus.Collector. Its methods are safe for concurrent use.
type Collector struct{ cfg Config }

// New returns a Collector. Register it once, in a registry of the program. It panics if the Config has neither
// a Server nor a Fleet.
func New(cfg Config) *Collector {
	if cfg.Server == nil && cfg.Fleet == nil {
		panic("metrics: New: the Config has neither a Server nor a Fleet: nothing would be exposed")
	}
	cfg.Timeout, cfg.MaxClasses = cmp.Or(cfg.Timeout, time.Second), cmp.Or(cfg.MaxClasses, 100)
	return &Collector{cfg}
}

// Handler serves the metrics of a Collector, and those of the Go runtime and the process, to Prometheus.
func Handler(c *Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// An error of one metric must not hide the others.
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes})
}

// ForServer returns the Handler of a server and its fleet, for belay.ProcessConfig.Metrics. It reads from Redis
// over connections of its own, one for each shard, which are closed when the server has stopped.
func ForServer(client *belay.Client, server *belay.Server) (http.Handler, error) {
	fleet, closeLanes, err := inspect.FleetOf(client).Lane(1)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	server.OnExit(func() { _ = closeLanes() })
	return Handler(New(Config{Server: server, Fleet: fleet})), nil
}

// maxScrapes bounds concurrent scrapes, each of which reads from Redis. Prometheus servers come in pairs.
const maxScrapes = 4

// desc describes a metric whose name begins with "belay_".
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("belay_"+name, help, labels, nil)
}

// outcomes lists the values of the label outcome.
func outcomes() string {
	var names []string
	for _, exit := range job.Exits {
		names = append(names, string(exit))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

var (
	jobs        = desc("jobs_total", "Runs that ended, and jobs that were dropped without a run, by outcome: "+outcomes()+".", "class", "queue", "outcome")
	duration    = desc("job_duration_seconds", "How long successful runs took.", "class", "queue")
	wait        = desc("job_wait_seconds", "How long jobs had been in their queue when their runs began.", "class", "queue")
	busy        = desc("busy_processors", "Jobs that run in this process.")
	concurrency = desc("processors", "Jobs that may run at once in this process.")
	recovered   = desc("recovered_jobs_total", "Jobs that this process recovered from dead processes.")
	lost        = desc("ownership_lost_total", "Jobs that other processes recovered from this one; their results here were dropped.")
	roundTrips  = desc("redis_round_trip_seconds", "How long Redis took to answer a pipeline of this process.")
	unanswered  = desc("redis_unanswered_calls_total", "Calls of this process without an answer from Redis.")
	dropped     = desc("log_lines_dropped_total", "Log lines that were dropped because their reader was too slow.")

	up          = desc("redis_up", "1 if Redis could be read in this scrape, otherwise 0.")
	size        = desc("queue_jobs", "Jobs that wait in a queue: of the 1,000 queues with the most jobs.", "queue")
	latency     = desc("queue_latency_seconds", "How long the oldest job of a queue has been waiting.", "queue")
	paused      = desc("queue_paused", "1 if a queue is paused, otherwise 0.", "queue")
	quarantined = desc("queue_quarantined_jobs", "Jobs of a queue that wait to run alone, because too many processes crashed while running them.", "queue")
	queueCount  = desc("queues", "Number of queues, including those without metrics.")
	scheduled   = desc("scheduled_jobs", "Jobs in the schedule.")
	retries     = desc("retry_jobs", "Failed jobs that wait for their next run.")
	dead        = desc("dead_jobs", "Jobs in the dead set, which run again only if an operator retries them.")
	running     = desc("limit_running", "Runs that count against a limit: of the first 100 limits by name.", "limit")
	waiting     = desc("limit_waiting", "Jobs that wait until a limit lets them start: of the first 100 limits by name.", "limit")
	batches     = desc("batches", "Batches that are open, running, complete, dead or over, and not deleted yet: of the 256 that are kept the longest. The others, as a rule over, have the state \"other\".", "state")
	processes   = desc("processes", "Worker processes that are alive, including those of Sidekiq.")
	processed   = desc("fleet_processed_total", "Runs of all processes, counted in Redis.")
	failed      = desc("fleet_failed_total", "Failed runs of all processes, counted in Redis.")
	duplicates  = desc("fleet_duplicates_total", "Pushes that were refused because another job held their lock.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	var list []*prometheus.Desc
	if c.cfg.Server != nil {
		list = append(list, jobs, duration, wait, busy, concurrency, recovered, lost, roundTrips, unanswered, dropped)
	}
	for _, desc := range list {
		to <- desc
	}
	for _, shard := range c.shards() {
		shard.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	if c.cfg.Server != nil {
		c.collectServer(to)
	}
	var reads sync.WaitGroup
	for _, shard := range c.shards() {
		reads.Go(func() { shard.Collect(to) })
	}
	reads.Wait()
}

// shards returns a Collector for each shard of the fleet; with names, their metrics have them as a label.
func (c *Collector) shards() (list []prometheus.Collector) {
	if c.cfg.Fleet == nil {
		return nil
	}
	for _, shard := range c.cfg.Fleet.Shards() {
		var one prometheus.Collector = shardCollector{shard.Inspector, c.cfg.Timeout}
		if shard.Name != "" {
			one = prometheus.WrapCollectorWith(prometheus.Labels{"shard": shard.Name}, one)
		}
		list = append(list, one)
	}
	return list
}

// A shardCollector exposes the figures that one keyspace has of the fleet.
type shardCollector struct {
	*inspect.Inspector

	timeout time.Duration
}

// Describe implements prometheus.Collector.
func (c shardCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		up, size, latency, paused, quarantined, queueCount, scheduled, retries, dead, batches, running, waiting, processes, processed, failed, duplicates,
	} {
		to <- desc
	}
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(to chan<- prometheus.Metric, d *prometheus.Desc, value uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func (c *Collector) collectServer(to chan<- prometheus.Metric) {
	counters := c.cfg.Server.Counters()
	for _, runs := range c.folded(counters.Runs) {
		class, queue := label(runs.Class), label(runs.Queue)
		for i, exit := range job.Exits {
			if runs.Exits[i] > 0 {
				counter(to, jobs, runs.Exits[i], class, queue, string(exit))
			}
		}
		histogram(to, duration, &runs.Took, class, queue)
		histogram(to, wait, &runs.Waited, class, queue)
	}
	gauge(to, busy, float64(counters.Busy))
	gauge(to, concurrency, float64(counters.Concurrency))
	counter(to, recovered, counters.Recovered)
	counter(to, lost, counters.Lost)
	histogram(to, roundTrips, &counters.RoundTrips)
	counter(to, unanswered, counters.Unanswered)
	counter(to, dropped, counters.DroppedLogLines)
}

// folded returns the counts, with those of the classes beyond the first MaxClasses added up for each queue.
func (c *Collector) folded(list []launcher.RunCounts) []launcher.RunCounts {
	known, others := map[string]bool{launcher.OtherClass: true}, map[string]int{}
	var kept []launcher.RunCounts
	for _, runs := range list {
		if !known[runs.Class] && len(known) > c.cfg.MaxClasses {
			runs.Class = launcher.OtherClass
		}
		known[runs.Class] = true
		if runs.Class != launcher.OtherClass {
			kept = append(kept, runs)
			continue
		}
		at, found := others[runs.Queue]
		if !found {
			others[runs.Queue] = len(kept)
			kept = append(kept, runs)
			continue
		}
		kept[at].Add(&runs)
	}
	return kept
}

// exposedBounds are the indexes in launcher.DurationBounds of the buckets that are exposed: not all, because
// each bucket is a series for each class and queue.
var exposedBounds = [...]int{0, 2, 4, 7, 10, 13, 16, 19, 22, 25, 28}

func histogram(to chan<- prometheus.Metric, d *prometheus.Desc, distribution *launcher.Distribution, labels ...string) {
	buckets, count, next := make(map[float64]uint64, len(exposedBounds)), uint64(0), 0
	for i, n := range distribution.Buckets {
		count += n
		if next < len(exposedBounds) && i == exposedBounds[next] {
			buckets[launcher.DurationBounds[i].Seconds()] = count
			next++
		}
	}
	to <- prometheus.MustNewConstHistogram(d, count, distribution.Sum.Seconds(), buckets, labels...)
}

// Collect implements prometheus.Collector.
func (c shardCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	s, err := c.Sizes(ctx)
	if err != nil {
		gauge(to, up, 0)
		return
	}
	gauge(to, up, 1)
	for _, queue := range s.Queues {
		name := label(queue.Name)
		gauge(to, size, float64(queue.Size), name)
		gauge(to, latency, queue.Latency.Seconds(), name)
		gauge(to, paused, map[bool]float64{true: 1}[queue.Paused], name)
		gauge(to, quarantined, float64(queue.Quarantined), name)
	}
	gauge(to, queueCount, float64(s.QueueCount))
	gauge(to, scheduled, float64(s.Scheduled))
	gauge(to, retries, float64(s.Retries))
	gauge(to, dead, float64(s.Dead))
	c.collectBatches(ctx, to, s.Batches)
	c.collectLimits(ctx, to)
	if living, err := c.Living(ctx, s); err == nil { // a zero would say that no worker is alive
		gauge(to, processes, float64(living))
	}
	counter(to, processed, uint64(max(s.Processed, 0)))
	counter(to, failed, uint64(max(s.Failed, 0)))
	counter(to, duplicates, uint64(max(s.Duplicates, 0)))
}

// maxLimits bounds the limits with their own metrics: any program can write names into Redis.
const maxLimits = 100

// collectLimits exposes the limits. If they cannot be read, their metrics are missing, and no others.
func (c shardCollector) collectLimits(ctx context.Context, to chan<- prometheus.Metric) {
	limits, err := c.Limits(ctx)
	if err != nil {
		return
	}
	for _, l := range limits.Limits[:min(len(limits.Limits), maxLimits)] {
		gauge(to, running, float64(l.Running), label(l.Name))
		gauge(to, waiting, float64(l.Waiting), label(l.Name))
	}
}

// collectBatches leaves out the batches if they cannot be read: zeros would say that there are none.
func (c shardCollector) collectBatches(ctx context.Context, to chan<- prometheus.Metric, count int64) {
	states, others := map[lua.BatchState]int{}, 0
	if count > 0 {
		var err error
		if states, others, err = c.BatchStates(ctx); err != nil {
			return
		}
	}
	for _, state := range lua.BatchStates {
		gauge(to, batches, float64(states[state]), string(state))
	}
	gauge(to, batches, float64(others), "other")
}

// label returns a name as a label: any program can write names into Redis that are not UTF-8, and one of them
// would fail the scrape. Bytes that are not UTF-8 are spelled \xff. So would two names with one label fail it:
// in a name that has such a byte, or \x, each backslash is doubled. All other names stay as they are.
func label(name string) string {
	if utf8.ValidString(name) && !strings.Contains(name, `\x`) {
		return name
	}
	var out strings.Builder
	for rest := name; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, rest[0])
		case r == '\\':
			out.WriteString(`\\`)
		default:
			out.WriteRune(r)
		}
		rest = rest[size:]
	}
	return out.String()
}
