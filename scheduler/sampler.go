package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// oldestAtOnce is how many oldest jobs one round trip reads: each may be of any size.
const oldestAtOnce = lua.MaxBytes / job.MaxPayloadLimit

// A Sampler keeps the sizes and latencies of the largest queues for a day, for the plots of dashboards. Redis
// itself keeps only what is there now. A Sampler must not be used concurrently.
type Sampler struct {
	keys  lua.Keys
	clock *lua.Clock
	link  link.Link
}

// NewSampler returns a Sampler.
func NewSampler(cfg Config) *Sampler {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	return &Sampler{keys: cfg.Keys, clock: cfg.Clock, link: link.Link{
		Client: cfg.Client, Freight: cfg.Freight, Round: cfg.Round, Largest: cfg.Largest, Log: cfg.Log, Duty: "sample",
	}}
}

// Pass adds a sample if this process, whose identity is me, is the poller.
func (s *Sampler) Pass(ctx context.Context, me string) error {
	if err := s.link.Check(ctx); err != nil {
		return err
	}
	if polls, err := isPoller(ctx, &s.link, s.keys, me); !polls {
		return err
	}
	sample, err := s.measure(ctx)
	if err == nil {
		_, err = s.keys.AddSample(sample).Do(ctx, &s.link)
	}
	if err != nil {
		return s.link.Excused(fmt.Errorf("sample the queues: %w", err))
	}
	return nil
}

// isPoller reports whether the process with the identity me has the lease of the poller.
func isPoller(ctx context.Context, link *link.Link, keys lua.Keys, me string) (bool, error) {
	reply := link.Do(ctx, driver.Command("GET", keys.Poller()))[0]
	poller, _ := reply.Value.(string)
	return reply.Err == nil && poller == me, reply.Err
}

func (s *Sampler) measure(ctx context.Context) (sample lua.Sample, err error) {
	replies := s.link.Do(ctx, driver.Command("GET", s.keys.Processed()), driver.Command("GET", s.keys.Failed()))
	if err := cmp.Or(replies[0].Err, replies[1].Err); err != nil {
		return sample, err
	}
	sample.Processed, sample.Failed = countOf(replies[0]), countOf(replies[1])
	sizes, err := s.keys.QueueSizes(ctx, &s.link)
	if err != nil {
		return sample, fmt.Errorf("read the sizes of the queues: %w", err)
	}
	sample.Queues = largest(sizes)
	return sample, s.latencies(ctx, sample.Queues)
}

// largest returns the largest of these queues, and of equally large ones those first by name. Names that no
// worker could serve are left out: only such a name is unbounded.
func largest(sizes []lua.QueueSize) (queues []lua.QueueSample) {
	for _, size := range sizes {
		if job.CheckQueue(size.Name) == nil {
			queues = append(queues, lua.QueueSample{Name: size.Name, Size: int64(max(size.Waiting, 0))})
		}
	}
	slices.SortFunc(queues, func(a, b lua.QueueSample) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name))
	})
	return queues[:min(len(queues), lua.MaxSampled)]
}

// latencies sets how long the oldest job of each queue has been waiting.
func (s *Sampler) latencies(ctx context.Context, queues []lua.QueueSample) error {
	for chunk := range slices.Chunk(queues, oldestAtOnce) {
		calls := make([]driver.Call, len(chunk))
		for n, queue := range chunk {
			calls[n] = driver.Command("LINDEX", s.keys.Queue(queue.Name), "-1")
		}
		now := s.clock.Now()
		for n, reply := range s.link.Carry(ctx, lua.MaxBytes, calls...) {
			if driver.Outage(reply.Err) {
				return reply.Err
			}
			oldest, _ := reply.Value.(string) // "" for an empty queue, and for a key of another type
			if since, ok := waitsSince(oldest); ok {
				chunk[n].Latency = max(now.Sub(since), 0).Round(time.Millisecond) // a producer's clock may be ahead
			}
		}
	}
	return nil
}

// countOf reads a counter; nothing and what is no number are 0.
func countOf(reply driver.Reply) int64 {
	text, _ := reply.Value.(string)
	count, _ := strconv.ParseInt(text, 10, 64)
	return count
}

// waitsSince returns when a job was enqueued, or else created, by the times that Sidekiq reads.
func waitsSince(payload string) (since time.Time, ok bool) {
	j, err := job.Parse(payload)
	if err != nil {
		return since, false
	}
	if since, ok = j.EnqueuedAt(); ok {
		return since, true
	}
	return j.CreatedAt()
}
