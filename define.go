package belay

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// A Definition is a class of jobs whose arguments are a T. It never changes, and may be used from any goroutine.
type Definition[T any] struct {
	item  Item
	about launcher.Class
	shape shape
}

// Define makes the definition of a class; usually it stands in a package variable that producers and workers import. It
// panics over a name that cannot be one and over a T that cannot hold arguments, because the program could not mean
// anything by it.
func Define[T any](class string, options ...DefineOption) *Definition[T] {
	s, err := shapeOf(reflect.TypeFor[T]())
	if nameErr := job.CheckClass(class); nameErr != nil {
		err = nameErr
	}
	if err != nil {
		panic(fmt.Sprintf("belay: Define %q: %v", class, err))
	}
	d := &Definition[T]{item: Item{Class: class}, shape: s}
	for _, option := range options {
		option.define(&d.item, &d.about)
	}
	return d
}

// Class is the name under which its jobs are stored.
func (d *Definition[T]) Class() string { return d.item.Class }

// Item is a job with these arguments, ready for Client.Push and Client.PushMany. Options given here come after the
// definition's, and override them.
func (d *Definition[T]) Item(args T, options ...JobOption) Item {
	item := d.item
	item.Args = d.shape.args(reflect.ValueOf(&args).Elem())
	for _, option := range options {
		option(&item)
	}
	return item
}

// Enqueue pushes a job with these arguments. See client.Client.Push for what the receipt and the error say.
func (d *Definition[T]) Enqueue(ctx context.Context, c *Client, args T, options ...JobOption) (Receipt, error) {
	return c.Push(ctx, d.Item(args, options...))
}

// EnqueueMany pushes a job for each of args. See client.Client.PushMany for what the receipts and the error say.
func (d *Definition[T]) EnqueueMany(ctx context.Context, c *Client, args iter.Seq[T], options ...JobOption) ([]Receipt, error) {
	return c.PushMany(ctx, func(yield func(Item) bool) {
		for one := range args {
			if !yield(d.Item(one, options...)) {
				return
			}
		}
	})
}

// Handle makes the server run the class's jobs with fn. A job whose arguments do not fit T fails like one whose handler
// returned an error. It panics when the class has a handler already, and after the server's Run.
func (d *Definition[T]) Handle(s *Server, fn func(ctx context.Context, args T) error) {
	if fn == nil {
		panic("belay: Handle " + d.item.Class + ": the handler is nil")
	}
	s.launcher.Handle(d.item.Class, func(ctx context.Context, j *Job) error {
		var args T
		if err := d.shape.fill(reflect.ValueOf(&args).Elem(), j.Args()); err != nil {
			return fmt.Errorf("read the arguments of %s: %w", d.item.Class, err)
		}
		return fn(ctx, args)
	}, d.about)
}

// A DefineOption says something of all jobs of a class.
type DefineOption interface {
	define(item *Item, about *launcher.Class)
}

// A JobOption says something of jobs: of all of a class at Define, of one at Enqueue. What cannot be meant is an error
// of the push.
type JobOption func(*client.Job)

func (o JobOption) define(item *Item, _ *launcher.Class) { o(item) }

// Queue is the queue that the job goes to; "default" without it.
func Queue(name string) JobOption { return func(i *Item) { i.Queue = name } }

// In has the job wait for d before it goes to its queue, by Redis' clock. Zero or less is now.
func In(d time.Duration) JobOption { return func(i *Item) { i.In = d } }

// At has the job wait until t before it goes to its queue. An instant that is past is now.
func At(t time.Time) JobOption { return func(i *Item) { i.At = t } }

// MaxRetries is how often a failed job is run again, 0 to put it among the dead at once. Without it the server's
// Policy decides: 25 times.
func MaxRetries(n int) JobOption {
	return func(i *Item) { i.Retry = job.RetryRule{Kind: job.RetryLimit, Limit: n} }
}

// NoRetry drops a failed job: it is neither run again nor kept.
func NoRetry() JobOption {
	return func(i *Item) { i.Retry = job.RetryRule{Kind: job.RetryNever} }
}

// RetryFor runs a failed job again for so long after its first failure, in whole seconds, however often that is.
func RetryFor(d time.Duration) JobOption { return func(i *Item) { i.RetryFor = d } }

// RetryQueue is the queue that retries go to; the job's own without it.
func RetryQueue(name string) JobOption { return func(i *Item) { i.RetryQueue = name } }

// Backtrace keeps so many lines of an error's stack with a failed job; AllLines keeps all.
func Backtrace(lines int) JobOption { return func(i *Item) { i.Backtrace = lines } }

// NoDead drops the job when it has no retries left, instead of keeping it among the dead.
func NoDead() JobOption { return func(i *Item) { i.NoDead = true } }

// Tags are shown by dashboards; they replace earlier ones.
func Tags(tags ...string) JobOption { return func(i *Item) { i.Tags = tags } }

// JID gives the job an id of the caller's choice, who answers for its being unique.
func JID(id string) JobOption { return func(i *Item) { i.JID = id } }

// Field adds a field to the payload, which travels with the job, such as a request id. value is written as JSON.
func Field(name string, value any) JobOption {
	return func(i *Item) {
		text, err := job.Marshal(value)
		if err != nil {
			text = err.Error() // no JSON: the push is refused, and names the field
		}
		i.Extra = append(i.Extra[:len(i.Extra):len(i.Extra)], job.Edit{Name: name, JSON: text})
	}
}

type classOption func(*launcher.Class)

func (o classOption) define(_ *Item, about *launcher.Class) { o(about) }

// Timeout ends a run's context after d, with the cause ErrTimeout; what the handler returns then counts as its outcome:
// nil is done, an error is a failure. A handler that does not return keeps its processor, and Server.OnStuck hears of it.
// Handle panics over a negative one; 0 is none.
func Timeout(d time.Duration) DefineOption {
	return classOption(func(c *launcher.Class) { c.Timeout = d })
}

// Backoff says how long failed jobs of the class wait, instead of the formula's base delay.
func Backoff(f BackoffFunc) DefineOption {
	return classOption(func(c *launcher.Class) { c.Backoff = f })
}
