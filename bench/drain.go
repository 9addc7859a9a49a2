package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// drainOptions are the flags of drain.
type drainOptions struct {
	jobs, concurrency, repeat int
	client, redis, profile    string
	json                      bool
}

// A drainResult is one run's figures.
type drainResult struct {
	Client        string  `json:"client"`
	Jobs          int     `json:"jobs"`
	Concurrency   int     `json:"concurrency"`
	JobsPerSecond float64 `json:"jobs_per_second"`
	PushPerSecond float64 `json:"push_per_second"`
	PushCPU       float64 `json:"redis_cpu_us_per_job_pushed"`
	RunCPU        float64 `json:"redis_cpu_us_per_job_run"`
	Allocs        float64 `json:"go_allocs_per_job"`
	Calls         float64 `json:"redis_calls_per_job"`
}

func drainCommand() *cobra.Command {
	var o drainOptions
	command := &cobra.Command{
		Use:   "drain",
		Short: "How fast one worker process empties a full queue of jobs that do nothing",
		Long: `How fast one worker process empties a full queue of jobs that do nothing.

The jobs are pushed first, in bulk. The clock runs from the worker's start until the last settle has been
acknowledged: not until the queue is empty, which comes earlier. Each job must have run exactly once.`,
		Example: "  go run ./bench drain --jobs 200000 --concurrency 100",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return drain(cmd.Context(), o) },
	}
	flags := command.Flags()
	flags.IntVar(&o.jobs, "jobs", 200_000, "how many jobs")
	flags.IntVar(&o.concurrency, "concurrency", 100, "how many run at once")
	flags.IntVar(&o.repeat, "repeat", 3, "how many runs")
	flags.StringVar(&o.client, "client", "go-redis", "go-redis or rueidis")
	flags.StringVar(&o.redis, "redis", "", "URL of a Redis to use; without it one is started and ended")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of the last run to this file")
	flags.BoolVar(&o.json, "json", false, "print the results as JSON")
	return command
}

func drain(ctx context.Context, o drainOptions) error {
	if o.jobs < 1 || o.concurrency < 1 || o.repeat < 1 {
		return fmt.Errorf("--jobs, --concurrency and --repeat are at least 1")
	}
	redis, err := startServer(ctx, o.redis)
	if err != nil {
		return err
	}
	defer redis.stop()
	var results []drainResult
	for run := range o.repeat {
		result, err := drainOnce(ctx, redis, o, run == o.repeat-1)
		if err != nil {
			return err
		}
		results = append(results, result)
		fmt.Fprintf(os.Stderr, "run %d of %d: %.0f jobs/s\n", run+1, o.repeat, result.JobsPerSecond)
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	printDrain(results)
	return nil
}

func printDrain(results []drainResult) {
	first := results[0]
	rates := make([]float64, len(results))
	for i, result := range results {
		rates[i] = result.JobsPerSecond
	}
	slices.Sort(rates)
	last := results[len(results)-1]
	fmt.Printf("drain: %d jobs, concurrency %d, %s, %s, %d cores, %s\n", first.Jobs, first.Concurrency, first.Client,
		runtime.Version(), runtime.NumCPU(), time.Now().Format(time.DateOnly))
	fmt.Printf("  jobs/s                 %10.0f   (median of %d; %.0f to %.0f)\n", rates[len(rates)/2], len(rates), rates[0], rates[len(rates)-1])
	fmt.Printf("  pushed in bulk, jobs/s %10.0f\n", last.PushPerSecond)
	fmt.Printf("  redis CPU per job      %10.2f us (push %.2f, run %.2f)\n", last.PushCPU+last.RunCPU, last.PushCPU, last.RunCPU)
	fmt.Printf("  redis calls per job    %10.3f\n", last.Calls)
	fmt.Printf("  go allocations per job %10.1f   (push excluded)\n", last.Allocs)
}

// drainOnce is one run in a keyspace of its own.
func drainOnce(ctx context.Context, redis *server, o drainOptions, last bool) (result drainResult, err error) {
	result = drainResult{Client: o.client, Jobs: o.jobs, Concurrency: o.concurrency}
	conn, err := openClient(o.client, redis.url)
	if err != nil {
		return result, err
	}
	defer func() { _ = conn.Close() }()
	prefix := "bench:" + job.NewJID()
	keys := lua.NewKeys(prefix)

	idle, err := cpu(ctx, conn)
	if err != nil {
		return result, err
	}
	started := time.Now()
	if err := pushAll(ctx, conn, prefix, o.jobs); err != nil {
		return result, err
	}
	result.PushPerSecond = float64(o.jobs) / time.Since(started).Seconds()
	pushed, err := cpu(ctx, conn)
	if err != nil {
		return result, err
	}
	result.PushCPU = micros(pushed-idle, o.jobs)

	ran := make([]atomic.Int32, o.jobs)
	worker, err := launcher.New(launcher.Config{Client: conn, Prefix: prefix, Concurrency: o.concurrency})
	if err != nil {
		return result, err
	}
	worker.Handle("Noop", func(_ context.Context, j *job.Job) error {
		args := j.ArgsJSON()
		n, err := strconv.Atoi(args[1 : len(args)-1])
		if err != nil {
			return err
		}
		ran[n].Add(1)
		return nil
	}, launcher.Class{})

	if last && o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return result, err
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return result, err
		}
		defer pprof.StopCPUProfile()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	calls, err := evals(ctx, conn)
	if err != nil {
		return result, err
	}
	started = time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- worker.Run(ctx) }()
	if err := waitProcessed(ctx, conn, keys, o.jobs); err != nil {
		worker.Stop()
		return result, errors.Join(err, <-stopped)
	}
	took := time.Since(started)
	runtime.ReadMemStats(&after)
	done, err := cpu(ctx, conn)
	if err != nil {
		return result, err
	}
	callsAfter, err := evals(ctx, conn)
	if err != nil {
		return result, err
	}
	worker.Stop()
	if err := <-stopped; err != nil {
		return result, err
	}
	for n := range ran {
		if times := ran[n].Load(); times != 1 {
			return result, fmt.Errorf("job %d ran %d times", n, times)
		}
	}
	result.JobsPerSecond = float64(o.jobs) / took.Seconds()
	result.RunCPU = micros(done-pushed, o.jobs)
	result.Allocs = float64(after.Mallocs-before.Mallocs) / float64(o.jobs)
	result.Calls = float64(callsAfter-calls) / float64(o.jobs)
	return result, cleanUp(ctx, conn, keys)
}

func micros(d time.Duration, jobs int) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(jobs)
}

// pushAll pushes the jobs in bulk; each knows its number.
func pushAll(ctx context.Context, conn driver.Client, prefix string, jobs int) error {
	pusher, err := client.New(conn, client.Config{Prefix: prefix})
	if err != nil {
		return err
	}
	for _, err := range pusher.PushSlices(ctx, noops(jobs)) {
		if err != nil {
			return err
		}
	}
	return nil
}

func noops(jobs int) iter.Seq[client.Job] {
	return func(yield func(client.Job) bool) {
		for n := range jobs {
			if !yield(client.Job{Class: "Noop", ArgsJSON: "[" + strconv.Itoa(n) + "]"}) {
				return
			}
		}
	}
}

// waitProcessed waits until so many runs have been counted: a run is counted in the step that settles it.
func waitProcessed(ctx context.Context, conn driver.Client, keys lua.Keys, jobs int) error {
	last, moved := "", time.Now()
	for {
		reply := conn.Do(ctx, driver.Command("GET", keys.Processed()))[0]
		if reply.Err != nil {
			return reply.Err
		}
		text, _ := reply.Value.(string)
		if text == strconv.Itoa(jobs) {
			return nil
		}
		if text != last {
			last, moved = text, time.Now()
		} else if time.Since(moved) > 30*time.Second {
			return fmt.Errorf("stuck: %s of %d jobs done and nothing has moved for 30s", text, jobs)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// evals is how many script calls Redis has served.
func evals(ctx context.Context, conn driver.Client) (int64, error) {
	reply := conn.Do(ctx, driver.Command("INFO", "commandstats"))[0]
	if reply.Err != nil {
		return 0, reply.Err
	}
	text, _ := reply.Value.(string)
	return callsOf(text, "evalsha"), nil
}

// cleanUp deletes what the run left, which matters on a Redis that is not ours.
func cleanUp(ctx context.Context, conn driver.Client, keys lua.Keys) error {
	today := time.Now()
	words := []string{"DEL", keys.Queues(), keys.Queue(client.DefaultQueue), keys.Processed(), keys.Failed(), keys.ProcessedOn(today),
		keys.FailedOn(today), keys.Processes(), keys.Alive(), keys.Tombstones(), keys.Sweeper(), keys.Poller()}
	reply := conn.Do(ctx, driver.Command("ZRANGE", keys.Tombstones(), "0", "-1"))[0]
	names, _ := reply.Value.([]any)
	for _, name := range names {
		if identity, ok := name.(string); ok {
			words = append(words, keys.Record(identity), keys.Process(identity))
		}
	}
	return conn.Do(ctx, driver.Command(words...))[0].Err
}
