package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const (
	// patience bounds one push. It is shorter than most outages, so that a push ends within one.
	patience = 2 * time.Second
	// rest is what lies between a push that was refused and the next: soon enough to be tried several times in
	// an outage.
	rest = 150 * time.Millisecond
)

// A pusher pushes its share of the plan, each job until it is accepted, or until it is unknown whether it was.
type pusher struct {
	*flags
	plan   *chaosplan.Plan
	book   *history.Writer
	client *belay.Client
	// operator is the same keyspace with the permissions of an operator.
	operator *belay.Client
}

// run ends when all has been pushed. What those before it have begun, who were killed, is left as it is.
func (p *pusher) run(ctx context.Context) error {
	rest := p.plan.Of(p.pusher)
	begun, err := p.begun()
	if err != nil {
		return err
	}
	rest = slices.DeleteFunc(rest, func(j chaosplan.Job) bool { return begun[j.Token] })
	p.book.Append(history.Event{Kind: history.Up})
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && rest[0].Batch != 0 && rest[n].Batch == rest[0].Batch {
			n++
		}
		time.Sleep(p.began + rest[0].At - history.Now())
		if err := p.until(ctx, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	p.book.Append(history.Event{Kind: history.Down})
	return nil
}

// begun are the jobs that were invoked and not refused since: they are accepted, or it is unknown.
func (p *pusher) begun() (map[string]bool, error) {
	name, _, _ := strings.Cut(p.proc, "-")
	events, err := history.ReadOf(p.dir, name+"-*")
	begun := make(map[string]bool)
	for _, e := range events {
		switch e.Kind {
		case history.Invoke, history.Accepted:
			begun[e.Token] = true
		case history.Refused:
			begun[e.Token] = false
		}
	}
	return begun, err
}

// A try is a job and what is known of its push: nothing at first.
type try struct {
	job     chaosplan.Job
	receipt belay.Receipt
	why     string
}

// until pushes jobs that go together until each is accepted, or it is unknown whether it is. A pusher that
// repeats does not leave it at that.
func (p *pusher) until(ctx context.Context, jobs []chaosplan.Job) error {
	tries := make([]*try, len(jobs))
	for i, j := range jobs {
		tries[i] = &try{job: j}
	}
	for {
		send, batch := p.push, those(tries, "", belay.StatusNotPushed)
		if len(batch) == 0 && p.repeats() && !jobs[0].Raw {
			send, batch = p.repeat, those(tries, belay.StatusUnknown)
		}
		if len(batch) == 0 {
			return nil
		}
		for _, t := range batch {
			p.book.Append(history.Event{Kind: history.Invoke, Token: t.job.Token, JID: t.job.JID, Queue: t.job.Queue, Spec: &t.job.Spec})
		}
		within, cancel := context.WithTimeout(ctx, patience)
		err := send(within, batch)
		cancel()
		for _, t := range batch {
			p.book.Append(history.Event{Kind: t.answer(), Token: t.job.Token, JID: t.job.JID, Text: t.why})
			if t.job.Spec.Kind == chaosplan.Cancelled && t.answer() == history.Accepted {
				p.cancel(ctx, t.job)
			}
		}
		var invalid *client.InvalidError
		if errors.As(err, &invalid) || errors.Is(err, belay.ErrNotRepeatable) {
			return err // a mistake of the run: it would be refused for ever
		}
		if err != nil {
			time.Sleep(rest)
		}
	}
}

// repeats reports whether this pusher's pushes can be repeated. Every other one's can: a run has both kinds.
func (p *pusher) repeats() bool { return p.pusher%2 == 1 }

func those(tries []*try, of ...client.Status) []*try {
	return slices.DeleteFunc(slices.Clone(tries), func(t *try) bool { return !slices.Contains(of, t.receipt.Status) })
}

func (t *try) answer() history.Kind {
	switch t.receipt.Status {
	case belay.StatusQueued, belay.StatusScheduled:
		return history.Accepted
	case belay.StatusUnknown:
		return history.Unknown
	case belay.StatusDuplicate: // for this judge, one that was never there
	}
	return history.Refused
}

// push pushes jobs once. What was not drawn, because those before it failed, is not pushed.
func (p *pusher) push(ctx context.Context, batch []*try) error {
	if batch[0].job.Raw {
		return p.pushRaw(ctx, batch[0])
	}
	items := make([]belay.RawJob, len(batch))
	for i, t := range batch {
		items[i] = p.item(t.job)
		t.receipt = belay.Receipt{Status: belay.StatusNotPushed}
	}
	if len(items) == 1 || batch[0].job.Batch%2 == 1 {
		return p.pushAtOnce(ctx, items, batch)
	}
	receipts, err := p.client.PushMany(ctx, slices.Values(items))
	return note(batch, receipts, err)
}

// pushAtOnce pushes each job by itself, all at the same moment: some of them share a call.
func (p *pusher) pushAtOnce(ctx context.Context, items []belay.RawJob, batch []*try) error {
	errs := make([]error, len(items))
	var group sync.WaitGroup
	for i := range items {
		group.Go(func() {
			receipt, err := p.client.Push(ctx, items[i])
			errs[i] = note(batch[i:i+1], []belay.Receipt{receipt}, err)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// repeat asks again what became of jobs.
func (p *pusher) repeat(ctx context.Context, batch []*try) error {
	receipts := make([]belay.Receipt, len(batch))
	for i, t := range batch {
		receipts[i] = t.receipt
	}
	receipts, err := p.client.RepeatMany(ctx, receipts)
	return note(batch, receipts, err)
}

// cancel marks a job, as an operator does, once: if that fails, it may still be cancelled.
func (p *pusher) cancel(ctx context.Context, j chaosplan.Job) {
	p.book.Append(history.Event{Kind: history.Marked, Token: j.Token, JID: j.JID})
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, space := range p.operator.Spaces() {
		_, _ = space.Keys.Mark([]lua.Mark{{JID: j.JID}}).Do(within, space.Driver)
	}
}

func note(batch []*try, receipts []belay.Receipt, err error) error {
	for i, t := range batch {
		if i < len(receipts) {
			t.receipt = receipts[i]
		}
		if t.why = ""; err != nil {
			t.why = err.Error()
		}
	}
	return err
}

// pushRaw stores one job by plain commands, as Ruby's Sidekiq does. Ruby knows one shard: the jobs of each
// second of the run are of another.
func (p *pusher) pushRaw(ctx context.Context, t *try) error {
	spaces := p.client.Spaces()
	space := spaces[int(t.job.At/time.Second)%len(spaces)]
	redis, keys := space.Driver, space.Keys
	now, err := lua.TimeOf(redis.Do(ctx, lua.AskTime)[0])
	if err != nil {
		return note([]*try{t}, []belay.Receipt{{Status: belay.StatusNotPushed}}, err) // asking stores nothing
	}
	j := t.job
	payload := fmt.Sprintf(`{"retry":true,"queue":%q,"class":%q,"args":%s,"jid":%q,"created_at":%s,"enqueued_at":%[5]s}`,
		j.Queue, j.Class, asJSON(j), j.JID, seconds(now))
	calls := []driver.Call{driver.Command("SADD", keys.Queues(), j.Queue), driver.Command("LPUSH", keys.Queue(j.Queue), payload)}
	if j.Spec.DelayMillis > 0 {
		due := now.Add(time.Duration(j.Spec.DelayMillis) * time.Millisecond)
		calls = []driver.Call{driver.Command("ZADD", keys.Schedule(), seconds(due), payload)}
	}
	status, replies := belay.StatusQueued, redis.Do(ctx, calls...)
	switch err = replies[len(replies)-1].Err; {
	case err != nil && driver.Certain(err):
		status = belay.StatusNotPushed
	case err != nil:
		status = belay.StatusUnknown
	}
	return note([]*try{t}, []belay.Receipt{{Status: status}}, err)
}

func seconds(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMicro())/1e6, 'f', 6, 64)
}

func (p *pusher) item(j chaosplan.Job) belay.RawJob {
	i := belay.RawJob{PushOnce: p.repeats(), Class: j.Class, Queue: j.Queue, JID: j.JID, ArgsJSON: asJSON(j), In: time.Duration(j.Spec.DelayMillis) * time.Millisecond}
	if kind := j.Spec.Kind; kind == chaosplan.Executing || kind == chaosplan.Executed {
		// Longer than any run: no lock is to run out. What counts is the ballast: each job has a token of its
		// own.
		i.Unique = &dedup.Rule{Until: dedup.Until(kind), TTL: time.Hour, By: func(string) (string, error) {
			return strconv.Quote(kind + " " + string(j.Spec.Ballast)), nil
		}}
	}
	if j.Spec.Retries >= 0 {
		i.Retry = job.RetryRule{Kind: job.RetryLimit, Limit: j.Spec.Retries}
	}
	return i
}
