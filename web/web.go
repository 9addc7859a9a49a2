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
	// connections is how many connections to each keyspace all users of a dashboard share. Workers use others.
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

// A Dashboard shows the keyspace of a client, or all of its shards: their sums on the overview, and all else of
// one shard, under the path /shard=NAME/. It is safe for concurrent use.
type Dashboard struct {
	cfg       Config
	fleet     *inspect.Fleet
	shards    []*Dashboard // one for each shard, with the pages about it; empty without shards
	name      string       // of its shard
	prefix    string
	inspector *inspect.Inspector // nil if it shows several shards
	lane      driver.Client
	origins   *http.CrossOriginProtection
	routes    map[string]route
	slots     chan struct{}
	secret    [32]byte // signs the cookies that carry the answer of an act to the next page
	// See the constants of these names; tests take one step at a time.
	stepTime, searchTime, patientTime time.Duration

	mutex    sync.Mutex // for the recorder
	recorder recorder

	overviews shared[inspect.FleetStatus]
	findings  shared[check.Findings]
	day       shared[[]inspect.Sample]
}

// New makes a Dashboard of a client's keyspace, or of all its shards. It uses connections of its own beside
// those of the client. It opens none: they are opened by requests, and Close closes them. The error names
// everything that is wrong with the config.
func New(c *client.Client, cfg Config) (*Dashboard, error) {
	if c == nil || c.Driver() == nil {
		return nil, errors.New("web: the client is nil; check the error of Open")
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
	d.cfg.Hosts = nil
	for _, host := range cfg.Hosts {
		d.cfg.Hosts = append(d.cfg.Hosts, hostName(host))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	d.routes = routes()
	if err := d.open(c); err != nil {
		return nil, errors.Join(fmt.Errorf("web: open connections of its own: %w", err), d.Close())
	}
	return d, nil
}

// open makes the connections to each keyspace, and a Dashboard for each shard.
func (d *Dashboard) open(c *client.Client) error {
	shards := inspect.FleetOf(c).Shards()
	for n, space := range c.Spaces() {
		lane, err := space.Driver.Lane(connections)
		if err != nil {
			return err
		}
		one := d
		if space.Name != "" {
			one = &Dashboard{cfg: d.cfg, origins: d.origins, slots: d.slots, secret: d.secret, routes: d.routes,
				stepTime: d.stepTime, searchTime: d.searchTime, patientTime: d.patientTime, name: space.Name}
			d.shards = append(d.shards, one)
		}
		one.lane, one.prefix = lane, space.Prefix
		one.inspector = shards[n].WithDriver(lane).WithDeadLimits(d.cfg.DeadLimit, d.cfg.DeadFor).WithMask(d.cfg.Mask)
		one.fleet = inspect.NewFleet(inspect.Shard{Inspector: one.inspector})
		shards[n].Inspector = one.inspector
	}
	if len(d.shards) > 0 {
		d.fleet = inspect.NewFleet(shards...)
	}
	return nil
}

// Close closes the dashboard's connections. Requests fail from then on.
func (d *Dashboard) Close() error {
	var errs []error
	for _, shard := range d.shards {
		errs = append(errs, shard.Close())
	}
	if d.lane != nil {
		errs = append(errs, d.lane.Close())
	}
	return errors.Join(errs...)
}

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

// status returns the overview, at most a second old unless its read takes longer.
func (d *Dashboard) status(ctx context.Context) (inspect.FleetStatus, error) {
	return d.overviews.get(ctx, fresh, func(ctx context.Context) (inspect.FleetStatus, error) {
		status, err := d.fleet.Status(ctx)
		if err == nil {
			d.record(status)
		}
		return status, err
	})
}

// record adds a status to the plots, and that of each shard to the plots of the shard. A sum without a shard
// that is away is no sample: its counters would fall, and jump when the shard is back.
func (d *Dashboard) record(status inspect.FleetStatus) {
	whole := true
	for n, shard := range status.Shards {
		if shard.Problem != "" {
			whole = false
			continue
		}
		d.shards[n].addSample(shard.Status)
	}
	if whole {
		d.addSample(status.Status)
	}
}

func (d *Dashboard) addSample(status inspect.Status) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.recorder.add(status)
}

// stale makes the next request read the status again: an act changed it.
func (d *Dashboard) stale() { d.overviews.stale() }
