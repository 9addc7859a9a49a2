package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/job"
)

const (
	// patience bounds one push. It is shorter than most outages, so that a push ends within one.
	patience = 2 * time.Second
	// rest is what lies between a push that was refused and the next: soon enough to be tried several times in an outage.
	rest = 150 * time.Millisecond
)

// A pusher pushes its share of the plan, each job until it is accepted, or until nobody can say whether it was.
type pusher struct {
	*flags
	plan   *chaosplan.Plan
	book   *history.Writer
	client *belay.Client
	raw    rawPusher
}

func newPusher(f *flags, plan *chaosplan.Plan, book *history.Writer, client *belay.Client, redis driver.Client) *pusher {
	return &pusher{flags: f, plan: plan, book: book, client: client, raw: newRawPusher(redis, f.prefix)}
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

// begun are the jobs that were invoked and not refused since: they are accepted, or nobody knows.
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

// until pushes jobs that go together until they are not refused any more.
func (p *pusher) until(ctx context.Context, jobs []chaosplan.Job) error {
	for {
		for _, j := range jobs {
			p.book.Append(history.Event{Kind: history.Invoke, Token: j.Token, JID: j.JID, Queue: j.Queue, Spec: &j.Spec})
		}
		answer, why := p.push(ctx, jobs)
		for _, j := range jobs {
			p.book.Append(history.Event{Kind: answer, Token: j.Token, JID: j.JID, Text: why})
		}
		if answer != history.Refused {
			return nil
		}
		if strings.HasPrefix(why, invalid) {
			return errors.New(why)
		}
		time.Sleep(rest)
	}
}

const invalid = "invalid: "

// push pushes them once, and says what is known of them then.
func (p *pusher) push(ctx context.Context, jobs []chaosplan.Job) (answer history.Kind, why string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if jobs[0].Raw {
		return verdict(p.raw.push(ctx, jobs[0]))
	}
	items := make([]belay.Item, len(jobs))
	for i, j := range jobs {
		items[i] = item(j)
	}
	if len(items) == 1 {
		_, err := p.client.Push(ctx, items[0])
		return verdict(err)
	}
	_, err := p.client.PushMany(ctx, slices.Values(items))
	return verdict(err)
}

func verdict(err error) (answer history.Kind, why string) {
	var wrong *client.InvalidError
	switch {
	case err == nil:
		return history.Accepted, ""
	case errors.As(err, &wrong):
		return history.Refused, invalid + err.Error()
	case errors.Is(err, belay.ErrUnknown):
		return history.Unknown, err.Error()
	}
	return history.Refused, err.Error()
}

func item(j chaosplan.Job) belay.Item {
	i := belay.Item{Class: j.Class, Queue: j.Queue, JID: j.JID, ArgsJSON: asJSON(j), In: time.Duration(j.Spec.DelayMillis) * time.Millisecond}
	if j.Spec.Retries >= 0 {
		i.Retry = job.RetryRule{Kind: job.RetryLimit, Limit: j.Spec.Retries}
	}
	return i
}

// unknown marks an error after which the job may or may not be there.
func unknown(err error) error {
	if driver.Certain(err) {
		return err
	}
	return fmt.Errorf("%w: %w", belay.ErrUnknown, err)
}
