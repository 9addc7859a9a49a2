package main

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// The floors each do the minimum of work in Redis for one measure. They run in a subject, as all systems do.

// floorDrain takes and settles the jobs in batches of Concurrency, one round trip a batch, over one
// connection. It does not read or run them.
func floorDrain(ctx context.Context, talk *subject.Talk, p *belayPeer) error {
	if err := p.fill(ctx, talk, p.task.Jobs); err != nil {
		return err
	}
	record := lua.Record{Queues: []string{bareQueue}, Beat: time.Minute, TTL: time.Hour, Concurrency: p.task.Concurrency}
	if _, err := lua.NewKeys(p.task.Prefix).Register(bareIdentity, record).Do(ctx, p.conn); err != nil {
		return err
	}
	started := time.Now()
	ended, err := p.drainBare(ctx, p.task.Concurrency)
	if err != nil {
		return err
	}
	e := subject.Event{Seconds: time.Since(started).Seconds()}
	if ended != p.task.Jobs {
		return fmt.Errorf("%d of %d jobs were taken", ended, p.task.Jobs)
	}
	e.Settings = fmt.Sprintf("take and settle, %d jobs in one round trip, one connection, no JSON, no handler", p.task.Concurrency)
	return talk.Done(e)
}

// bareQueue is the queue that clients push to by default, bareIdentity the process that takes from it without a
// worker, and bareList the list that raw pushes go to.
const bareQueue, bareIdentity, bareList = "default", "floor", "bare"

// drainBare ends all jobs of the queue by the scripts alone, and returns how many they were.
func (p *belayPeer) drainBare(ctx context.Context, batch int) (ended int, err error) {
	keys := lua.NewKeys(p.task.Prefix)
	var settle []driver.Call
	for number := int64(1); ; number++ {
		take := keys.Take(bareIdentity, []string{bareQueue}, batch, lua.MaxBytes, job.MaxPayloadLimit)
		replies := p.conn.Do(ctx, append(settle, take.Call)...)
		for _, reply := range replies {
			if reply.Err != nil {
				return ended, reply.Err
			}
		}
		taken, err := take.Read(replies[len(replies)-1])
		if err != nil || len(taken.Jobs) == 0 {
			return ended, err
		}
		settled := make([]lua.Settled, 0, batch)
		for _, bytes := range taken.Jobs[0].Bytes {
			settled = append(settled, lua.Settled{Queue: bareQueue, Bytes: bytes, Outcome: job.Done()})
		}
		ended += len(settled)
		settle = []driver.Call{keys.Settle(lua.Settlement{
			Identity: bareIdentity, Number: number, Mark: number, Jobs: settled, Today: time.Now(),
		}).Call}
	}
}

// A barePeer stores jobs by LPUSH alone, with the bytes that Belay writes.
type barePeer struct {
	*belayPeer
	payload string // of one Noop
}

func openFloor(ctx context.Context, task subject.Task) (measure.Peer, error) {
	p, err := openBelay(ctx, task)
	if err != nil {
		return nil, err
	}
	if err := p.Enqueue(ctx, measure.Noops(0)); err != nil {
		return nil, err
	}
	reply := p.conn.Do(ctx, driver.Command("RPOP", lua.NewKeys(task.Prefix).Queue(bareQueue)))[0]
	payload, _ := reply.Value.(string)
	return &barePeer{p, payload}, reply.Err
}

// list returns the key of its list.
func (p *barePeer) list() string { return lua.NewKeys(p.task.Prefix).Queue(bareList) }

func (p *barePeer) do(ctx context.Context, words ...string) error {
	return p.conn.Do(ctx, driver.Command(words...))[0].Err
}

// Enqueue is an LPUSH of the same bytes for each job.
func (p *barePeer) Enqueue(ctx context.Context, _ measure.Job) error {
	return p.do(ctx, "LPUSH", p.list(), p.payload)
}

// EnqueueAll is LPUSH of many elements a call. Where Redis' memory is measured, only one list may be left, with
// the same bytes of as many jobs.
func (p *barePeer) EnqueueAll(ctx context.Context, count int, job func(n int) measure.Job) error {
	keys := lua.NewKeys(p.task.Prefix)
	if job(0).Class == measure.Email {
		if err := p.belayPeer.EnqueueAll(ctx, count, job); err != nil {
			return err
		}
		if err := p.do(ctx, "RENAME", keys.Queue(bareQueue), p.list()); err != nil {
			return err
		}
		return p.do(ctx, "DEL", keys.Queues())
	}
	const batch = 1000
	words := []string{"LPUSH", p.list()}
	for range batch {
		words = append(words, p.payload)
	}
	for left := count; left > 0; left -= batch {
		if err := p.do(ctx, words[:2+min(left, batch)]...); err != nil {
			return err
		}
	}
	return nil
}

// Settings returns what stores the jobs.
func (p *barePeer) Settings() string { return "bare LPUSH of the same bytes" }
