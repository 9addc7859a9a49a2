package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
)

// Config configures a Dashboard. The zero value shows everything and permits every act, so the program that
// serves the handler must authenticate its users, as Serve does.
type Config struct {
	// BasePath is removed from the paths of requests. It is needed only if the program that mounts the handler
	// under a path does not remove that path itself (http.StripPrefix).
	BasePath string
	// ReadOnly refuses every act, and the pages show no buttons.
	ReadOnly bool
	// Authorize decides whether a request may do an act; its error is shown to the user. Nil permits all. It is
	// called again for each step of an act on many jobs.
	Authorize func(r *http.Request, act Act) error
	// Mask returns what may be shown of a job's args (a JSON array) as JSON or as any text, such as
	// inspect.MaskClasses("Card"). Nil shows all. inspect.Inspector.WithMask says what else it hides: of a job
	// whose args it changes, the fields that programs add, and the bytes of entries that cannot be read.
	Mask inspect.Mask
	// User returns the name of the user for the audit log. Default: the user that Serve authenticated.
	User func(r *http.Request) string
	// Hosts are the host names, without port, by which browsers may address the handler; others are refused.
	// This protects a server without authentication against DNS rebinding: a page whose own host name resolves
	// to the server's address. Empty permits all.
	Hosts []string
	// TrustedOrigins are further origins, such as https://admin.example.com, that may send acts. They are
	// needed behind a proxy that replaces the Host header.
	TrustedOrigins []string
	// DeadLimit and DeadFor are the limits to which a kill trims the dead set: pass those of the workers'
	// ServerConfig. Defaults: those of a server, 10,000 jobs and 180 days.
	DeadLimit int
	DeadFor   time.Duration
	// Metrics is served under metrics, for Prometheus. Nil: not found.
	Metrics http.Handler
	// Logger gets a line for each act and for each failure. Default: slog.Default.
	Logger *slog.Logger
}

const (
	// connections is how many connections to Redis all users of a dashboard share. Workers use others.
	connections = 4
	// requestTimeout bounds the reading and acting for one request. An act that takes longer goes on with the
	// next request.
	requestTimeout = 10 * time.Second
	// atOnce bounds the requests in work; further ones wait for slotWait and are then refused. Few operators
	// look at once, and a page takes milliseconds.
	atOnce   = 16
	slotWait = 2 * time.Second
	// maxBody bounds the body of a request: 1,000 selected jobs with long IDs.
	maxBody = 1 << 20
)

// A Dashboard shows one keyspace. It is safe for concurrent use.
type Dashboard struct {
	cfg       Config
	prefix    string
	inspector *inspect.Inspector
	lane      driver.Client
	origins   *http.CrossOriginProtection
	routes    map[string]route
	slots     chan struct{}
	secret    [32]byte // signs the cookies that carry the answer of an act to the next page
	// See the constants of these names; tests take one step at a time.
	stepTime, searchTime, patientTime time.Duration

	mutex    sync.Mutex // held during a read of the status, so that concurrent requests share one
	last     inspect.Status
	lastRead time.Time
	recorder recorder

	findings shared[check.Findings]
	day      shared[[]inspect.Sample]
}

// New makes a Dashboard of a client's keyspace. It uses connections of its own beside those of the client. It
// opens none: they are opened by requests, and Close closes them. The error names everything that is wrong with
// the config.
func New(c *client.Client, cfg Config) (*Dashboard, error) {
	if c == nil || c.Driver() == nil {
		return nil, errors.New("web: the client is nil; check the error of Open")
	}
	if len(c.Spaces()) > 1 {
		return nil, errors.New("web: the client has several shards, and a dashboard shows one: open a client with the URL and the prefix of the shard")
	}
	d := &Dashboard{cfg: cfg, origins: http.NewCrossOriginProtection(), slots: make(chan struct{}, atOnce), stepTime: stepTime, searchTime: searchTime, patientTime: patientTime}
	_, _ = rand.Read(d.secret[:]) // it never returns an error
	var errs []error
	for _, origin := range cfg.TrustedOrigins {
		if err := d.origins.AddTrustedOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("TrustedOrigins: %w", err))
		}
	}
	if strings.ContainsAny(cfg.BasePath, "%?#") {
		errs = append(errs, fmt.Errorf("BasePath %q: it must be a plain path, such as /jobs", cfg.BasePath))
	}
	if cfg.DeadLimit < 0 || cfg.DeadFor < 0 {
		errs = append(errs, fmt.Errorf("DeadLimit %d and DeadFor %v: they must not be negative", cfg.DeadLimit, cfg.DeadFor))
	}
	d.cfg.BasePath = strings.TrimSuffix("/"+strings.Trim(cfg.BasePath, "/"), "/")
	d.cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	lane, err := c.Driver().Lane(connections)
	if err != nil {
		return nil, fmt.Errorf("web: open connections of its own: %w", err)
	}
	d.lane, d.inspector = lane, inspect.New(c).WithDriver(lane).WithDeadLimits(cfg.DeadLimit, cfg.DeadFor).WithMask(cfg.Mask)
	d.prefix, d.routes = c.Spaces()[0].Prefix, routes()
	return d, nil
}

// Close closes the dashboard's connections. Requests fail from then on.
func (d *Dashboard) Close() error { return d.lane.Close() }

// sampleEvery is how often Run reads the status for the plots.
const sampleEvery = 5 * time.Second

// Run records sizes and latencies for the plots until ctx ends. Without it, the plot of 15 minutes covers only
// the time during which a page was open. So does the plot of 24 hours in a fleet without a worker of Belay:
// otherwise one of the workers keeps its figures in Redis, and it survives a restart of the dashboard.
func (d *Dashboard) Run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		_, _ = d.status(ctx) // an outage leaves a gap in the plots; pages report it
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// fresh is for how long a status serves further requests: several tabs cost no more than one.
const fresh = time.Second

// status returns the overview, at most a second old.
func (d *Dashboard) status(ctx context.Context) (inspect.Status, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if time.Since(d.lastRead) < fresh {
		return d.last, nil
	}
	// Not the request's own cancellation: the status is for the others too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout/2)
	defer cancel()
	status, err := d.inspector.Status(ctx)
	if err != nil {
		return inspect.Status{}, err
	}
	d.last, d.lastRead = status, time.Now()
	d.recorder.add(status)
	return status, nil
}

// stale makes the next request read the status again: an act changed it.
func (d *Dashboard) stale() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.lastRead = time.Time{}
}
