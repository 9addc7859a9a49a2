package belay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/belayq/belay/job/middleware"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/service"
	"github.com/belayq/belay/logbook"
)

// A Server runs jobs in this process. NewServer makes it; Definition.Handle, Register, HandleRaw and
// HandleUnknown register its handlers; Run runs it. Each of the callbacks, OnStart and so on, may be
// registered several times; after Run that panics. A panic in a callback, or its runtime.Goexit, is logged
// and harms no job and no other callback.
type Server struct {
	client   *Client
	launcher *launcher.Launcher
	buffer   *logbook.Buffer
	log      *slog.Logger // into the buffer
	// unscheduled joins the errors of Schedule.
	unscheduled error
}

// NewServer returns a Server for the jobs of a client's Redis, with the client's prefix, time unit and
// payload limit. It opens nothing and starts nothing. The error names everything that is wrong with the
// config, at once.
func NewServer(c *Client, cfg ServerConfig) (*Server, error) {
	if c == nil || c.Driver() == nil {
		return nil, errors.New("belay: NewServer: the client is nil; check the error of Open")
	}
	l, buffer, log, err := cfg.build(c)
	if err != nil {
		return nil, fmt.Errorf("belay: configure a server: %w", err)
	}
	return &Server{client: c, launcher: l, buffer: buffer, log: log}, nil
}

// made returns the launcher. It panics for a Server that NewServer has not made.
func (s *Server) made(what string) *launcher.Launcher {
	if s == nil || s.launcher == nil {
		panic("belay: " + what + ": the server is empty; make it by NewServer")
	}
	return s.launcher
}

// Run works until ctx ends, and then stops: no more jobs are taken, running ones have the shutdown timeout,
// and unfinished ones go back to their queue. It returns nil after such a stop. It returns an error at once
// if the server has no handlers (ErrNoHandlers) or if the client is closed. Do not close the client before
// Run has returned. A Server runs once.
//
// At the start Run logs a warning for each handled class whose queue (see Queue) the server does not take
// jobs from, and for each of the server's queues that no handled class uses and to which no job was ever
// pushed. Both can be intended. In the background it checks the configuration of Redis, as `belay check` does,
// and logs a warning for each finding that is not ok. The server does not wait for the check, and runs
// regardless of the findings, except on a Redis older than 7.0: then Run returns an error at once.
func (s *Server) Run(ctx context.Context) error {
	return s.run(ctx, s.made("Run").Run)
}

// run checks that the server can run, before a port is opened, and calls what runs it.
func (s *Server) run(ctx context.Context, run func(context.Context) error) error {
	if len(s.launcher.Classes()) == 0 {
		return ErrNoHandlers
	}
	if s.unscheduled != nil {
		return s.unscheduled
	}
	defer s.buffer.Flush(lastWords)
	return run(ctx)
}

// Client returns the Client that the server was made from.
func (s *Server) Client() *Client {
	s.made("Client")
	return s.client
}

// ErrNoHandlers is the error of a Server's Run, and of Main, if no handler is registered. Such a server would
// take jobs, fail them and use up their retries.
var ErrNoHandlers = errors.New("belay: the server has no handlers, so every job would fail: register handlers before Run, by Definition.Handle, Server.Register or Server.HandleRaw")

// Classes returns the names of the classes that have a handler, sorted; "*" stands for HandleUnknown.
func (s *Server) Classes() []string { return s.made("Classes").Classes() }

// Register makes the server run the classes of these registrations, as Definition.Handle does for one. It
// panics when a registration is empty, when a class has a handler already, and after Run.
func (s *Server) Register(list ...Registration) {
	for _, r := range list {
		if r.handler == nil {
			panic("belay: Register: a registration is empty; make it by Definition.Handler")
		}
		s.made("Handle "+r.class).Handle(r.class, r.handler, r.about)
	}
}

// HandleRaw makes the server run a class that has no Definition. The options are those of Define that are
// about runs: Timeout, Backoff, Around, OnExhausted, KeepErrors, KillOn, DiscardOn, SnoozeOn, LimitedTo, and
// Limited with a key of *Job. It panics when another option is given or one is invalid, when the class has a
// handler already, and after Run.
func (s *Server) HandleRaw(class string, handler Handler, options ...DefineOption) {
	if class == launcher.AnyClass {
		panic("belay: HandleRaw *: use HandleUnknown")
	}
	s.made("Handle "+class).Handle(class, handler, aboutRuns("HandleRaw "+class, options))
}

// HandleUnknown makes the server run all classes that have no handler of their own, with the options of
// HandleRaw. It panics as HandleRaw does, and at a second call.
func (s *Server) HandleUnknown(handler Handler, options ...DefineOption) {
	s.made("HandleUnknown").Handle(launcher.AnyClass, handler, aboutRuns("HandleUnknown", options))
}

// Use adds middleware around every run, under a name, at a Place. Without a place, it is added after, and so
// inside of, all earlier middleware. Use panics if the name is taken, if the place does not exist, and after
// Run.
func (s *Server) Use(name string, m Middleware, at ...Place) { s.made("Use").Use(name, m, at...) }

// RemoveMiddleware removes the middleware of that name, such as one that a library has added. It panics if
// there is none, and after Run.
func (s *Server) RemoveMiddleware(name string) { s.made("RemoveMiddleware").RemoveMiddleware(name) }

// A Place is a position among the middleware that Server.Use or Client.Use has added. One of its fields is set:
// Place{First: true} is before all others, so that the middleware sees a job first and is the outermost;
// Place{Last: true} is after all others, also after those that are added later without a place; Place{Before:
// name}, Place{After: name} and Place{InPlaceOf: name} are next to the middleware of that name, or replace it.
type Place = middleware.Place

// AddQueue makes the server take jobs from one more queue, as if ServerConfig.Queues had named it after the
// others: with a weight, or 0 for none. Before Run it changes the configuration; later it returns at once,
// and the server takes from the queue as soon as Redis has recorded that it does, so that a crash loses no
// job. A queue that the server takes already gets this weight, and stays in its capsule. The error says what
// is invalid: the name, the weight, or that there would be more than 128 queues.
func (s *Server) AddQueue(name string, weight int) error {
	return s.made("AddQueue").AddQueue(name, weight)
}

// RemoveQueue makes the server take no more jobs from a queue. It returns at once; jobs that run continue. A
// pattern that matches the queue does not bring it back; AddQueue does. For a queue that the server does not
// take, there is nothing to do. It is an error to remove a pattern, or the last queue of a server or of a
// capsule.
func (s *Server) RemoveQueue(name string) error { return s.made("RemoveQueue").RemoveQueue(name) }

// Queues returns the names of the queues that the server takes jobs from, those of all capsules. It has the
// queues that match a pattern as far as they are known.
func (s *Server) Queues() []string { return s.made("Queues").Queues() }

// Identity returns the identity of the process; empty before Run has registered it.
func (s *Server) Identity() string { return s.made("Identity").Identity() }

// Counters holds what a Server has counted since NewServer: its Runs by class and queue, the jobs that it
// Recovered and Lost, its RoundTrips to Redis and the Unanswered ones; and how many jobs it runs now: Busy, of
// Concurrency at most. Package metrics exports them to Prometheus.
type Counters struct {
	launcher.Counters
	// DroppedLogLines counts lines that were not logged because the reader of the log was too slow or
	// panicked.
	DroppedLogLines uint64
}

// Counters returns the counters of the server. It may be called at any time.
func (s *Server) Counters() Counters {
	return Counters{s.made("Counters").Counters(), s.buffer.Dropped()}
}

// Health serves liveness and readiness probes at two paths:
//
//	GET /healthz  is the process alive? 503 means that it must be restarted. It answers 200 during an outage of Redis.
//	GET /readyz   does it take jobs? 200 only when it is registered and alive in Redis, and neither quiet nor
//	              stopping. Otherwise 503, with the reason.
//
// Both respond with {"ok": bool, "reason": "...", "detail": "..."}, without a reason if all is well.
// No response waits for Redis longer than half a second. The reasons:
//
//	not_running     Run has not been called, or has returned
//	not_registered  Redis has no record of the process yet
//	stopping, quiet the server takes no more jobs
//	redis_away      an outage of Redis
//	access_denied   Redis refuses the user or the password
//	no_lease        Redis has had no heartbeat of the process within the TTL, so no run may start
//	standing_still  only /healthz: the goroutine that takes and settles jobs no longer responds
//	no_heartbeat    only /healthz: heartbeats have failed for longer than an outage explains
func (s *Server) Health() http.Handler { return service.Health(s.made("Health")) }

// Dump logs the running jobs and the stacks of all goroutines.
func (s *Server) Dump() { s.made("Dump").Dump() }

// Quiet makes the server take no more jobs. Run continues until it is stopped. A second call does nothing.
func (s *Server) Quiet() { s.made("Quiet").Quiet() }

// Stop ends Run, as the end of its context does. A second call ends the shutdown timeout at once.
func (s *Server) Stop() { s.made("Stop").Stop() }
