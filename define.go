package belay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"strconv"
	"strings"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job/args"
	"github.com/belayq/belay/job/seal"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// A Definition is a class of jobs whose arguments are a T. It never changes, and may be used from any
// goroutine.
//
// A program that only enqueues needs the Definition and a Client. A program that runs the jobs registers a
// handler with its Server: by Handle or, if a constructor makes the handlers, by Handler and Server.Register.
type Definition[T any] struct {
	definition
}

// A definition is what does not depend on T.
type definition struct {
	item        RawJob
	about       launcher.Class
	of          reflect.Type // T
	shape       *args.Shape
	named       bool // by NamedArgs
	idempotence idempotence
	// uniqueBy and positions say which arguments identify the class' unique jobs; see dedup.Rule. Not both are
	// set.
	uniqueBy  func(argsJSON string) (string, error)
	positions []int
	problems  []error
}

// Define returns the definition of a class, usually for a package variable that producers and workers import.
// It panics if the class name, an option or T is invalid, and names all mistakes. T is invalid if it cannot
// be written as JSON or would not be read back unchanged; see "Arguments" in the package's documentation. It
// also panics if two package variables of the program define one class: the handler of one definition would get
// the jobs of the other. A function, such as a test, may define a class again.
func Define[T any](class string, options ...DefineOption) *Definition[T] {
	d := &Definition[T]{definition{item: RawJob{Class: class}, of: reflect.TypeFor[T]()}}
	d.apply(options)
	if limit := d.about.Limit; limit != nil {
		if rule := d.item.Encrypt; rule != nil {
			limit.Key = sealedKey(rule.Keys, limit.Key)
		}
		d.item.LimitedBy(limit.GateOf)
	}
	shapeOf := args.For
	if d.named {
		shapeOf = args.ForNamed
	}
	shape, err := shapeOf(d.of)
	d.shape, d.problems = shape, append([]error{err}, d.problems...)
	d.identify()
	d.problems = append(d.problems, d.checkEncryption(), definedOnce(class))
	if err := d.check(); err != nil {
		panic(fmt.Sprintf("belay: Define %q: %s", class, strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return d
}

// apply applies options, and keeps the mistakes.
func (d *definition) apply(options []DefineOption) {
	for _, option := range options {
		if option == nil {
			d.problems = append(d.problems, errNilOption)
			continue
		}
		option.define(d)
	}
	// A class' timeout is not written into its jobs.
	d.about.Timeout, d.item.Timeout = d.item.Timeout, 0
}

// aboutRuns returns what options say about the runs of a class that has no Definition. It panics for an option
// that has an effect only at a push, and for invalid ones.
func aboutRuns(what string, options []DefineOption) launcher.Class {
	none := definition{item: RawJob{Class: launcher.AnyClass}}
	d := none
	d.apply(options)
	about, err := d.about, errors.Join(append(d.problems, d.item.Check())...)
	d.about = launcher.Class{}
	if err == nil && !reflect.DeepEqual(d, none) {
		err = errors.New("an option has no effect without a Definition; use only those about runs")
	}
	if err != nil {
		panic("belay: " + what + ": " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return about
}

func (d *definition) check() error {
	errs := append(d.problems, d.item.Check())
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	must(d.item.Class != launcher.AnyClass, "%q stands for all classes that have no handler: use Server.HandleUnknown", launcher.AnyClass)
	must(d.item.JID == "", oneJID, d.item.JID)
	must(d.item.Key == "", oneKey)
	return errors.Join(errs...)
}

// classes has the place of each definition that was made while packages were initialized. It needs no mutex,
// because one goroutine initializes all packages, and later definitions are not in it.
var classes = make(map[string]string)

// definedOnce returns an error if another package variable has defined the class.
func definedOnce(class string) error {
	place := initializer()
	if place == "" {
		return nil
	}
	if earlier, twice := classes[class]; twice {
		return fmt.Errorf("the class is defined already, at %s: use that definition, or define it in a function", earlier)
	}
	classes[class] = place
	return nil
}

// initializer returns the place, as file:line, of the package variable or init function for which this
// goroutine runs; "" if it does not initialize a package.
func initializer() string {
	callers := make([]uintptr, 32) // calls between a variable and Define
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		_, name, _ := strings.Cut(frame.Function[strings.LastIndexByte(frame.Function, '/')+1:], ".")
		number, isFunc := strings.CutPrefix(name, "init.") // the init functions of a package have numbers
		_, err := strconv.Atoi(number)
		if name == "init" || isFunc && err == nil {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// oneJID and oneKey are the errors of an option JID or Key that would apply to many jobs.
const (
	oneJID = "JID %s would be the id of every job: give it to Enqueue, or push jobs of Definition.Job(args, belay.JID(id)) by " +
		"Client.PushMany, with belay.InBatch(b) for members of a batch"
	oneKey = "one Key for every job would store only the first: give it to Enqueue, or push jobs of " +
		"Definition.Job(args, belay.Key(key, d)) by Client.PushMany"
)

// made panics for a Definition that Define has not made, because it has no class.
func (d *Definition[T]) made(what string) {
	if d == nil || d.shape == nil {
		panic("belay: " + what + ": the definition is empty; make it by Define")
	}
}

// open panics for a client that Open has not made.
func open(c *Client, what string) {
	if c == nil || c.Driver() == nil {
		panic("belay: " + what + ": the client is nil; check the error of Open")
	}
}

// Class returns the name under which its jobs are stored.
func (d *Definition[T]) Class() string { return d.item.Class }

// Idempotence returns what the class declares about a second run of a job, which may happen to every job
// whose process dies before the result is settled. declared reports whether the class has Idempotent or
// NotIdempotent, and holds whether it has Idempotent. reason is that of NotIdempotent.
func (d *Definition[T]) Idempotence() (declared, holds bool, reason string) {
	return d.idempotence.declared, d.idempotence.holds, d.idempotence.reason
}

// Job returns a job with these arguments, ready for Client.Push and Client.PushMany. Options given here come
// after the definition's, and override them.
func (d *Definition[T]) Job(args T, options ...JobOption) RawJob {
	d.made("Job")
	item := d.item
	item.Args = d.shape.Write(reflect.ValueOf(&args).Elem())
	for _, option := range options {
		option.apply(&item)
	}
	d.resolve(&item)
	return item
}

// Enqueue pushes a job with these arguments. Without an error, Receipt.Status says what has happened: the job
// is queued, scheduled, refused by middleware, or a duplicate. After ErrUnknown it may be in Redis, and after
// ErrReplicas it is; after any other error it is not. client.Client.Push describes both in full. It panics when
// c is nil.
func (d *Definition[T]) Enqueue(ctx context.Context, c *Client, args T, options ...JobOption) (Receipt, error) {
	d.made("Enqueue")
	open(c, "Enqueue "+d.item.Class)
	return c.Push(ctx, d.Job(args, options...))
}

// EnqueueMany pushes a job for each of args. client.Client.PushMany describes the receipts and the error.
// Options are for all of the jobs, so the same JID or Key for two of them is an error. It panics when c or
// args is nil. EnqueueSeq is for more jobs than there is memory for receipts.
func (d *Definition[T]) EnqueueMany(ctx context.Context, c *Client, args iter.Seq[T], options ...JobOption) ([]Receipt, error) {
	return c.PushMany(ctx, d.jobs("EnqueueMany", c, args, options))
}

// EnqueueSeq pushes a job for each of args, of any number, and keeps no receipts. After each slice of at most
// 256 jobs it calls progress, unless that is nil, with the slice's receipts and error. An invalid job is left
// out alone, and a slice that certainly was not stored because Redis is away is sent again; other errors end
// it. With PushOnce, a slice whose reply is lost is sent again, too.
//
// n is how many of args have a known outcome. The error is nil if all of them were pushed or refused, else a
// *BulkError, which counts the outcomes. client.Client.PushSeq has the details. Options are as for EnqueueMany,
// and it panics when c or args is nil.
func (d *Definition[T]) EnqueueSeq(ctx context.Context, c *Client, args iter.Seq[T], progress func(receipts []Receipt, err error), options ...JobOption) (n int, err error) {
	return c.PushSeq(ctx, d.jobs("EnqueueSeq", c, args, options), progress)
}

// jobs returns a job for each of args. It panics when c or args is nil.
func (d *Definition[T]) jobs(what string, c *Client, args iter.Seq[T], options []JobOption) iter.Seq[RawJob] {
	d.made(what)
	open(c, what+" "+d.item.Class)
	if args == nil {
		panic("belay: " + what + " " + d.item.Class + ": the sequence is nil")
	}
	return func(yield func(RawJob) bool) {
		before, beforeKey := "", ""
		for arg := range args {
			item := d.Job(arg, options...)
			if item.JID != "" && item.JID == before {
				item.Fail(fmt.Errorf(oneJID, item.JID))
			}
			if item.Key != "" && item.Key == beforeKey {
				item.Fail(errors.New(oneKey))
			}
			before, beforeKey = item.JID, item.Key
			if !yield(item) {
				return
			}
		}
	}
}

// Handle makes the server run the class's jobs with fn. A job whose arguments do not fit T fails with an
// *ArgumentError, as if fn had returned it; one of an Encrypted class whose key is missing, with a
// *DecryptError. ctx ends when fn has returned, after the callbacks of AfterRun: code that continues after that
// needs a context of its own, such as context.WithoutCancel makes. Handle panics when fn is nil, when the class
// has a handler already, when its keys cannot be read, and after the server's Run.
func (d *Definition[T]) Handle(s *Server, fn func(ctx context.Context, args T) error) {
	d.made("Handle")
	s.Register(d.Handler(fn))
}

// Handler returns a Registration of the class with fn as its handler, for Server.Register. Registrations have
// one type for all T, so constructors can return them and a slice can hold them. It panics when fn is nil, and
// when the class is Encrypted and its keys cannot be read.
func (d *Definition[T]) Handler(fn func(ctx context.Context, args T) error) Registration {
	d.made("Handler")
	if fn == nil {
		panic("belay: Handle " + d.item.Class + ": the handler is nil")
	}
	if rule := d.item.Encrypt; rule != nil {
		if err := rule.Keys.Check(); err != nil {
			panic("belay: Handle " + d.item.Class + ": it is encrypted: " + err.Error())
		}
	}
	about := d.about
	about.Queue, about.RetryQueue = cmp.Or(d.item.Queue, client.DefaultQueue), d.item.RetryQueue
	return Registration{class: d.item.Class, about: about, handler: func(ctx context.Context, j *Job) error {
		args, err := d.Args(j)
		if err != nil {
			return err
		}
		return fn(ctx, args)
	}}
}

// Args reads a job's arguments as Handle does before it calls the handler. It ignores the job's class, because
// a class that was renamed may still have jobs with the old name. Its error wraps an *ArgumentError; for a job
// of an Encrypted class, a *DecryptError; for compressed arguments that cannot be read, retry.ErrCompressed.
func (d *Definition[T]) Args(j *Job) (T, error) {
	d.made("Args")
	return argsOf[T](&d.definition, j)
}

// argsOf reads a job's arguments as the T of a definition. Hooks get the job as it is stored, so GitLab's size
// limiter may have compressed them.
func argsOf[T any](d *definition, j *Job) (T, error) {
	var args, none T
	if j.Compressed() {
		plain, err := j.Decompressed()
		if err != nil {
			return none, fmt.Errorf("read the arguments of %s: %w", d.item.Class, retry.Compressed(err))
		}
		j = plain
	}
	var keys Keys
	if d.item.Encrypt != nil {
		keys = d.item.Encrypt.Keys
	}
	list, err := seal.Open(j, keys)
	if err != nil {
		return none, fmt.Errorf("read the arguments of %s: %w", d.item.Class, err)
	}
	if err := d.shape.Fill(reflect.ValueOf(&args).Elem(), list); err != nil {
		return none, fmt.Errorf("read the arguments of %s: %w", d.item.Class, err)
	}
	return args, nil
}

// A Registration is a class and its handler. Definition.Handler makes it, and Server.Register accepts it.
type Registration struct {
	class   string
	handler Handler
	about   launcher.Class
}

// Class returns the name of the class.
func (r Registration) Class() string { return r.class }
