package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// floorSubject returns the floors: each does the minimum of work in Redis for one measure. They run in a
// subject, as all systems do.
func floorSubject() map[string]subject.Func {
	return map[string]subject.Func{
		"floor-drain": pushing(floorDrain), "floor-enqueue": pushing(floorEnqueue), "floor-bulk": pushing(floorBulk),
		"floor-push": pushing(floorPush),
	}
}

// floorDrain takes and settles the jobs in batches of Concurrency, one round trip a batch, over one
// connection. It does not read or run them.
func floorDrain(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	if _, err := p.fill(ctx, talk, numbered(task.Jobs, noop)); err != nil {
		return err
	}
	b := bare{keys: lua.NewKeys(task.Prefix), conn: p.conn, identity: "floor"}
	record := lua.Record{Queues: []string{bareQueue}, Beat: time.Minute, TTL: time.Hour, Concurrency: task.Concurrency}
	if _, err := b.keys.Register(b.identity, record).Do(ctx, p.conn); err != nil {
		return err
	}
	started := time.Now()
	ended, err := b.drain(ctx, task.Concurrency)
	if err != nil {
		return err
	}
	e := subject.Event{Seconds: time.Since(started).Seconds()}
	if ended != task.Jobs {
		return fmt.Errorf("%d of %d jobs were taken", ended, task.Jobs)
	}
	e.Settings = fmt.Sprintf("take and settle, %d jobs in one round trip, one connection, no JSON, no handler", task.Concurrency)
	return talk.Done(e)
}

// bareQueue is the queue that clients push to by default.
const bareQueue = "default"

// A bare is a worker without a worker: the scripts alone.
type bare struct {
	keys     lua.Keys
	conn     driver.Client
	identity string
}

// drain ends all jobs of the queue and says how many they were.
func (b bare) drain(ctx context.Context, batch int) (ended int, err error) {
	var settle []driver.Call
	for number := int64(1); ; number++ {
		take := b.keys.Take(b.identity, []string{bareQueue}, batch, lua.MostBytes, job.MaxPayloadLimit)
		replies := b.conn.Do(ctx, append(settle, take.Call)...)
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
		settle = []driver.Call{b.keys.Settle(lua.Settlement{
			Identity: b.identity, Number: number, Mark: number, Jobs: settled, Today: time.Now(), DeadMost: 1, DeadFor: time.Hour,
		}).Call}
	}
}

// bareList is the list that raw pushes go to.
const bareList = "bare"

// aPayload is the bytes of one Noop as Belay writes it.
func (p *pusher) aPayload(ctx context.Context, keys lua.Keys) (string, error) {
	if _, err := p.Push(ctx, noop(0)); err != nil {
		return "", err
	}
	reply := p.conn.Do(ctx, driver.Command("RPOP", keys.Queue(bareQueue)))[0]
	payload, _ := reply.Value.(string)
	return payload, reply.Err
}

// floorEnqueue is LPUSH, one a call, of the bytes that Belay would write, from several goroutines.
func floorEnqueue(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	return p.timed(ctx, task, talk, func(payload string) error {
		var next atomic.Int64
		var group sync.WaitGroup
		errs := make(chan error, task.Producers)
		for range task.Producers {
			group.Go(func() {
				for next.Add(1) <= int64(task.Jobs) {
					if err := p.conn.Do(ctx, driver.Command("LPUSH", bareList, payload))[0].Err; err != nil {
						errs <- err
						return
					}
				}
			})
		}
		group.Wait()
		close(errs)
		return <-errs
	})
}

// floorBatch is how many elements one raw LPUSH has.
const floorBatch = 1000

// floorBulk is LPUSH of many elements a call.
func floorBulk(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	return p.timed(ctx, task, talk, func(payload string) error {
		words := []string{"LPUSH", bareList}
		for range floorBatch {
			words = append(words, payload)
		}
		for left := task.Jobs; left > 0; left -= floorBatch {
			if err := p.conn.Do(ctx, driver.Command(words[:2+min(left, floorBatch)]...))[0].Err; err != nil {
				return err
			}
		}
		return nil
	})
}

// timed times push, of the bytes of one Noop.
func (p *pusher) timed(ctx context.Context, task subject.Task, talk *subject.Talk, push func(payload string) error) error {
	payload, err := p.aPayload(ctx, lua.NewKeys(task.Prefix))
	if err != nil {
		return err
	}
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	started := time.Now()
	if err := push(payload); err != nil {
		return err
	}
	return talk.Done(subject.Event{Seconds: time.Since(started).Seconds(), Settings: "bare LPUSH of the same bytes"})
}

// floorPush leaves nothing but one list with the bytes that Belay wrote for the jobs.
func floorPush(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	took, err := p.pushAll(ctx, numbered(task.Jobs, welcome))
	if err != nil {
		return err
	}
	keys := lua.NewKeys(task.Prefix)
	for moved := 0; moved < task.Jobs; moved += floorBatch {
		page, err := lua.Texts(p.conn.Do(ctx, driver.Command("RPOP", keys.Queue(bareQueue), fmt.Sprint(floorBatch)))[0])
		if err != nil {
			return err
		}
		if err := p.conn.Do(ctx, driver.Command(append([]string{"LPUSH", bareList}, page...)...))[0].Err; err != nil {
			return err
		}
	}
	if err := p.conn.Do(ctx, driver.Command("DEL", keys.Queues()))[0].Err; err != nil {
		return err
	}
	if err := talk.Pushed(ctx, took); err != nil {
		return err
	}
	return talk.Done(subject.Event{Seconds: took.Seconds()})
}
