package main

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

var memoryMeasure = measurement{
	name:  "memory",
	title: "Memory of a queued job",
	short: "How much memory Redis needs for a job that waits in a queue",
	what: "The used_memory of Redis is read when it is empty, and again with the jobs queued and every connection of the pusher closed. " +
		"The difference is divided by the number of jobs. The job is WelcomeEmail with a number, a word and an object of one field.",
	read: "A queue that is longer than Redis' memory loses jobs or refuses them, so bytes decide how long an outage of the workers can last. " +
		"The floor is one Redis list with the same bytes that Belay wrote, and nothing else.",
	unused:  []string{"concurrency", "profile"},
	metrics: []report.Metric{{Name: "bytes/job", Unit: "bytes/job", Less: true, Plot: true}},
	run:     memory,
}

func memory(ctx context.Context, b *bench, r *report.Result) error {
	const sample, full = 100_000, 500_000
	const peerSample = 50_000
	turns := []turn{b.memoryTurn(r, b.belays()[0], "push", b.size(sample, full))} // a client changes no bytes
	for _, c := range b.able(r) {
		turns = append(turns, b.memoryTurn(r, c, "push", b.peerSize(c, peerSample, full)))
	}
	turns = append(turns, b.memoryTurn(r, b.floors("a bare list")[0], "floor-push", b.size(sample, full)))
	return b.rounds(ctx, r, b.repeats(2, 5), turns)
}

func (b *bench) memoryTurn(r *report.Result, c contender, measure string, jobs int) turn {
	return turn{who: c, what: report.Count(jobs) + " jobs", run: func(ctx context.Context) (string, error) {
		if err := b.empty(ctx); err != nil {
			return "", err
		}
		before, err := b.usage(ctx)
		if err != nil {
			return "", err
		}
		if err := b.fill(ctx, c, subject.Task{Measure: measure, Jobs: jobs}); err != nil {
			return "", err
		}
		after, err := b.usage(ctx)
		if err != nil {
			return "", err
		}
		bytes := (after.memory - before.memory) / float64(jobs)
		settings := report.Count(jobs) + " jobs"
		if c.kind == report.Belay {
			reply := b.look.Do(ctx, driver.Command("LINDEX", lua.NewKeys(b.prefix).Queue(bareQueue), "0"))[0]
			payload, _ := reply.Value.(string)
			settings += fmt.Sprintf(", payloads of %d bytes", len(payload))
		}
		c.tell(r, "", settings, map[string]float64{"bytes/job": bytes})
		return fmt.Sprintf("%.1f bytes/job", bytes), nil
	}}
}

// fill has the subject store its jobs, ends it, and waits until Redis has freed what its connections held.
func (b *bench) fill(ctx context.Context, c contender, task subject.Task) error {
	p, err := b.start(ctx, c, task)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Go(); err != nil {
		return err
	}
	if _, err := p.Expect(ctx, subject.Pushed, patience); err != nil {
		return err
	}
	p.Kill() // what it would still do, it must not: the jobs are to stay as they are
	for range 500 {
		now, err := b.usage(ctx)
		if err != nil || now.connections <= 1 || b.redis.external() {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("connections of a subject that was killed stay open")
}
