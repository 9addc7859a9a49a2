package belay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/service"
	"github.com/belayq/belay/logbook"
)

// A Server runs jobs in this process. NewServer makes it, Definition.Handle and HandleClass say what it runs, Run runs it.
type Server struct {
	launcher *launcher.Launcher
	book     *logbook.Book // the server's log
	driver   driver.Client
	check    inspect.CheckConfig // the requirements that a Process checks at its start
	wrong    error
}

type serverConfig struct {
	launcher.Config
	middleware []Middleware
	handlers   []Registration
	book       *logbook.Book
	// relevel sets the level of the program's own log; nil without one.
	relevel func(level zerolog.Level)
	wrong   []error
}

// A ServerOption says something to NewServer.
type ServerOption func(*serverConfig)

// NewServer makes a Server for the jobs of a client's Redis, with the client's prefix, time unit and payload limit. It
// opens nothing and starts nothing. What is wrong with the options is the error of Run, all of it at once; it panics only
// without a client.
func NewServer(c *Client, options ...ServerOption) *Server {
	open(c, "NewServer")
	var cfg serverConfig
	cfg.hear(options)
	cfg.withLog()
	of := c.Config()
	cfg.Client, cfg.Prefix, cfg.PayloadLimit, cfg.Retry.Unit = c.Driver(), of.Prefix, of.PayloadLimit, of.Unit
	l, err := launcher.New(cfg.Config)
	if err = errors.Join(append(cfg.wrong, err)...); err == nil {
		l.Use(cfg.middleware...)
		s := &Server{launcher: l, book: cfg.book, driver: c.Driver(), check: cfg.checked()}
		s.register(cfg.handlers...)
		return s
	}
	// One that never runs, so that handlers can be registered before Run says what is wrong.
	idle, _ := launcher.New(launcher.Config{Client: c.Driver()})
	return &Server{launcher: idle, book: cfg.book, wrong: fmt.Errorf("belay: the server cannot run: %w", err)}
}

// checked returns the requirements on Redis.
func (c *serverConfig) checked() inspect.CheckConfig {
	wanted := inspect.CheckConfig{Prefix: c.Prefix, PayloadLimit: c.PayloadLimit, Unit: c.Retry.Unit}
	for _, queue := range c.Queues {
		wanted.Queues = append(wanted.Queues, queue.Name)
	}
	if len(c.Queues) == 0 {
		wanted.Queues = append(wanted.Queues, client.DefaultQueue)
	}
	for _, capsule := range c.Capsules {
		for _, queue := range capsule.Queues {
			wanted.Queues = append(wanted.Queues, queue.Name)
		}
	}
	return wanted
}

// hear lets the options speak.
func (c *serverConfig) hear(options []ServerOption) {
	for _, option := range options {
		if option == nil {
			c.wrong = append(c.wrong, errNilOption)
			continue
		}
		option(c)
	}
}

// made is what the Server stands for. It panics for one that NewServer has not made.
func (s *Server) made(what string) *launcher.Launcher {
	if s == nil || s.launcher == nil {
		panic("belay: " + what + ": the server is empty; make it by NewServer")
	}
	return s.launcher
}

// given is made, for what is to be given a function; it panics without one.
func (s *Server) given(what string, something bool) *launcher.Launcher {
	if !something {
		panic("belay: " + what + ": the function is nil")
	}
	return s.made(what)
}

// Run works until ctx ends, and then stops: no more jobs are taken, running ones have the shutdown timeout, and what is
// not done by then goes back to its queue. It returns nil after such a stop. It returns an error at once when the server has no
// handlers (ErrNoHandlers), and when the client is closed, which should not happen before Run has returned. A Server runs once.
//
// At the start it warns, once, of handled classes whose queue (see Queue) is not taken, and of taken queues
// to which no job was ever pushed and which no handled class uses. Both can be intended.
func (s *Server) Run(ctx context.Context) error {
	group := s.made("Run")
	if err := s.ready(); err != nil {
		return err
	}
	defer s.book.Flush(lastWords)
	return group.Run(ctx)
}

// ErrNoHandlers is the error of a Server's Run, and of Main, if no handler is registered. Such a server would
// take jobs, fail them and use up their retries.
var ErrNoHandlers = errors.New("belay: the server has no handlers, so every job would fail: register handlers before Run, by Definition.Handle, Server.Register or Server.HandleClass")

// ready returns why the server cannot run, now that its handlers are registered.
func (s *Server) ready() error {
	if s.wrong == nil && len(s.launcher.Classes()) == 0 {
		return ErrNoHandlers
	}
	return s.wrong
}

// Classes returns the names of the classes that have a handler, sorted, including AnyClass if it has one.
func (s *Server) Classes() []string { return s.made("Classes").Classes() }

// Register makes the server run the classes of these registrations, as Definition.Handle does for one. It panics when a
// registration is empty, when a class has a handler already, and after Run.
func (s *Server) Register(list ...Registration) {
	for _, r := range list {
		if r.handler == nil {
			panic("belay: Register: a registration is empty; make it by Definition.With")
		}
	}
	s.register(list...)
}

// HandleClass makes the server run a class that has no Definition; AnyClass takes all that have no handler. It panics
// when the class has a handler already, and after Run.
func (s *Server) HandleClass(class string, handler Handler) {
	s.made("Handle "+class).Handle(class, handler, launcher.Class{})
}

func (s *Server) register(list ...Registration) {
	for _, r := range list {
		s.made("Handle "+r.class).Handle(r.class, r.handler, r.about)
	}
}

// Use adds middleware around every run; the first is the outermost. It panics after Run.
func (s *Server) Use(middleware ...Middleware) {
	s.given("Use", !slices.ContainsFunc(middleware, func(m Middleware) bool { return m == nil })).Use(middleware...)
}

// OnError adds one who hears of every run that did not succeed. It panics after Run.
func (s *Server) OnError(handler ErrorHandler) { s.given("OnError", handler != nil).OnError(handler) }

// OnStuck adds one who hears of every run whose context has ended and whose handler does not return: once it has gone on
// for as long again as its class' Timeout, though at least 5 s and at most a minute (5 s where it was cancelled for another
// reason), then every ten minutes, and when the server stops without it, unless that was told before. Such a run keeps
// its processor, and its job stays in hand: nothing can end a goroutine from outside. It panics after Run.
func (s *Server) OnStuck(handler StuckHandler) { s.given("OnStuck", handler != nil).OnStuck(handler) }

// Identity is the name under which the process now lives; empty before Run has registered it.
func (s *Server) Identity() string { return s.made("Identity").Identity() }

// Health answers those who look after processes, at two paths; mount it where they are asked for:
//
//	GET /healthz  is the process alive? 503 says: start it anew. An outage of Redis is not its fault, and answers 200.
//	GET /readyz   does it take jobs? 200 only when it is registered, Redis answers and has it among the living, and it is
//	              neither quiet nor stopping. Otherwise 503, with the reason.
//
// Both answer {"ok": bool, "reason": "...", "detail": "..."}, without a reason when all is well. Reasons are not_running,
// not_registered, stopping, quiet, redis_away, access_denied, no_lease, and of /healthz standing_still and no_heartbeat.
// No answer waits for Redis longer than half a second.
func (s *Server) Health() http.Handler { return service.Health(s.made("Health")) }

// Dump logs what runs and where every goroutine stands.
func (s *Server) Dump() { s.made("Dump").Dump() }

// Quiet takes no more jobs, while Run goes on until it is stopped. A second call does nothing.
func (s *Server) Quiet() { s.made("Quiet").Quiet() }

// Stop ends Run, as the end of its context does. A second call ends the shutdown timeout at once.
func (s *Server) Stop() { s.made("Stop").Stop() }

// Handlers make the server run these classes, as Definition.Handle does for one. Two handlers of one class are an error of
// Run.
func Handlers(list ...Registration) ServerOption {
	return func(c *serverConfig) {
		for _, r := range list {
			switch {
			case r.handler == nil:
				c.wrong = append(c.wrong, errors.New("an empty Registration among the Handlers: make it by Definition.With"))
			case slices.ContainsFunc(c.handlers, func(earlier Registration) bool { return earlier.class == r.class }):
				c.wrong = append(c.wrong, fmt.Errorf("the class %q has two handlers", r.class))
			default:
				c.handlers = append(c.handlers, r)
			}
		}
	}
}

// Concurrency is how many jobs run at once; 25 without it.
func Concurrency(n int) ServerOption {
	return func(c *serverConfig) {
		c.Concurrency = n
		if n == 0 { // which the launcher would take for "not said"
			c.wrong = append(c.wrong, errors.New("concurrency 0: a server runs at least one job at once"))
		}
	}
}

// Queues are taken from in this order, strictly: nothing comes from a later one while an earlier one has jobs. "default"
// without it. It may be given together with QueueWeight.
func Queues(names ...string) ServerOption {
	return func(c *serverConfig) {
		for _, name := range names {
			c.Queues = append(c.Queues, fetch.Queue{Name: name})
		}
	}
}

// QueueWeight adds a queue that is looked at first as often as its weight is of all weights. With one weight among the
// queues there is no strict order any more: queues without one have weight 1.
func QueueWeight(name string, weight int) ServerOption {
	return func(c *serverConfig) {
		c.Queues = append(c.Queues, fetch.Queue{Name: name, Weight: weight})
		if weight < 1 {
			c.wrong = append(c.wrong, fmt.Errorf("queue %q: weight %d is below 1", name, weight))
		}
	}
}

// ShutdownTimeout is how long running jobs may go on when the server stops: 25 s without it, 0 for not at all.
func ShutdownTimeout(d time.Duration) ServerOption {
	return func(c *serverConfig) {
		if c.ShutdownTimeout = d; d == 0 {
			c.ShutdownTimeout = -1
		}
	}
}

// MaxInterruptions is how many crashes of its process a job may be in hand for: 3 without it, 2 at least. One short of it,
// the job runs with nothing beside it, and a crash then buries it.
func MaxInterruptions(most int) ServerOption {
	return func(c *serverConfig) {
		if c.MaxInterruptions = most; most == 0 {
			c.MaxInterruptions = -1 // refused, with its reason; a Config's 0 is its default
		}
	}
}

// Heartbeat is how often the server says that it lives, and how long it counts as alive after that: 1.5 s and 6 s without
// it. A ttl is at least four beats; 0 is just that.
func Heartbeat(beat, ttl time.Duration) ServerOption {
	return func(c *serverConfig) { c.Beat, c.TTL = beat, ttl }
}

// RetryPolicy is what happens to failed jobs that do not say; Sidekiq's without it. Its time unit and payload limit are
// the client's.
func RetryPolicy(policy Policy) ServerOption { return func(c *serverConfig) { c.Retry = policy } }

// DeadLimits bounds the dead set: the number of jobs kept, and how long each is kept. 0 means Sidekiq's
// limits, 10,000 and 180 days, which are the defaults. A worker trims the set when it adds to it, the oldest
// first.
func DeadLimits(most int, keep time.Duration) ServerOption {
	return func(c *serverConfig) { c.DeadMost, c.DeadFor = most, keep }
}

// Name stands for the host's name in the server's identity.
func Name(name string) ServerOption { return func(c *serverConfig) { c.Name = name } }
