package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/metrics"
	"github.com/belayq/belay/web"
)

const webHelp = `Serves a dashboard that shows counters, plots, queues, processes, locks and jobs of all kinds, and
has buttons to act on them. Viewing pages changes nothing. The dashboard has Redis connections of its own.

If the URL has shards, the overview shows their sums, and the other pages are about the shard that is chosen at
the top. --shard NAME serves one.

An address that other machines can reach needs users. --auth USER:FILE adds a user; FILE has lines NAME:HASH, as htpasswd -B
writes them, or one line with the hash alone. HASH is a bcrypt hash, or the SHA-256 of a long random password:
  htpasswd -nB alice > users
  printf %s "$SECRET" | sha256sum > secret
It does not serve TLS: put a proxy that serves https in front of it. On a loopback address it answers only requests for
localhost, 127.0.0.1, ::1 and the names of --host.

/metrics serves the figures of the fleet to Prometheus, read over a Redis connection of its own. If there are users,
Prometheus must log in as one: use basic_auth in its scrape_configs.` + deadLimitsHelp + `

Each act is logged on standard error, with the user, the address and its target, and so is each wrong password. /healthz answers 200 while Redis can
be read, or any shard, without a user; everything else needs a user if there are any.`

type webFlags struct {
	addr, base     string
	users, viewers []string
	hosts, origins []string
	readOnly, wait bool
	dead           deadLimits
}

func newWeb(at *redisFlags) *cobra.Command {
	var flags webFlags
	cmd := at.masking(&cobra.Command{
		Use:   "web",
		Short: "Serve the dashboard",
		Long:  webHelp,
		Example: `  belay web
  belay web --read-only --addr 127.0.0.1:8080
  belay web --addr :7420 --auth alice:/etc/belay/users --viewer guest:/etc/belay/users
  belay web --base-path /jobs --host admin.example.com
  belay web --mask Payment,Signup`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.dead.check(); err != nil {
				return err
			}
			if err := readVariable(cmd.Flags(), waitKey); err != nil {
				return err
			}
			return serveWeb(cmd, at, flags)
		},
	})
	set := cmd.Flags()
	set.StringVar(&flags.addr, "addr", "127.0.0.1:7420", "`HOST:PORT` to listen on")
	set.StringArrayVar(&flags.users, "auth", nil, "admit a user: `USER:FILE`, FILE with the hash of the password; may be repeated")
	set.StringArrayVar(&flags.viewers, "viewer", nil, "admit a user who may not act: `USER:FILE`; may be repeated")
	set.BoolVar(&flags.readOnly, "read-only", false, "show no buttons and refuse all acts")
	set.BoolVar(&flags.wait, "wait-for-redis", false, "serve also while Redis denies access, instead of ending with an error at the start [BELAY_WAIT_FOR_REDIS]")
	set.StringVar(&flags.base, "base-path", "", "`PATH` before all others, if a proxy does not remove it")
	set.StringArrayVar(&flags.hosts, "host", nil, "answer requests for this `NAME` too (on a loopback address); may be repeated")
	set.StringArrayVar(&flags.origins, "origin", nil, "trust acts from pages of this `ORIGIN`, such as https://admin.example.com; may be repeated")
	flags.dead.register(set)
	return cmd
}

// allAdmitted is admitted for each keyspace of a client, all at once.
func allAdmitted(c *client.Client, role check.Role) error {
	spaces := c.Spaces()
	errs := make([]error, len(spaces))
	var asks sync.WaitGroup
	for n, space := range spaces {
		asks.Go(func() {
			if errs[n] = admitted(space.Driver, space.Prefix, role); errs[n] != nil && space.Name != "" {
				errs[n] = fmt.Errorf("shard %s: %w", space.Name, errs[n])
			}
		})
	}
	asks.Wait()
	return errors.Join(errs...)
}

func serveWeb(cmd *cobra.Command, at *redisFlags, flags webFlags) error {
	users, badUsers := flags.readUsers()
	mask, badMask := at.masks(cmd)
	c, badRedis := at.clientOfChosen()
	if err := errors.Join(badUsers, badMask, badRedis); err != nil {
		return statusError{err, exitUsage}
	}
	defer func() { _ = c.Close() }()
	if err := allAdmitted(c, check.RoleDashboard); err != nil && !flags.wait {
		return err
	}
	log := logbook.JSON(zerolog.ConsoleWriter{
		Out: cmd.ErrOrStderr(), NoColor: true, TimeFormat: "2006-01-02T15:04:05.000Z07:00", TimeLocation: time.UTC,
	}, slog.LevelInfo)
	for _, space := range c.Spaces() {
		check.LogCertificate(space.Driver, slog.New(log))
	}
	scraped, closeScraped, err := inspect.FleetOf(c).Lane(1) // a scrape delays no page
	if err != nil {
		return err
	}
	defer func() { _ = closeScraped() }()
	cfg := web.Config{
		BasePath: flags.base, ReadOnly: flags.readOnly, TrustedOrigins: flags.origins,
		Mask: mask, DeadLimit: flags.dead.limit, DeadFor: flags.dead.keep,
		Logger:  slog.New(log),
		Metrics: metrics.Handler(metrics.New(metrics.Config{Fleet: scraped})),
	}
	listener, err := web.Listen(flags.addr, users)
	switch {
	case errors.Is(err, web.ErrNoUsers):
		return fmt.Errorf("%w; --auth USER:FILE adds a user, and --addr 127.0.0.1:7420 is for this machine only", err)
	case err != nil:
		return fmt.Errorf("%w; --addr HOST:PORT chooses another address", err)
	}
	if tcp, is := listener.Addr().(*net.TCPAddr); is && tcp.IP.IsLoopback() {
		cfg.Hosts = append(web.LoopbackHosts(), flags.hosts...)
	}
	dashboard, err := web.New(c, cfg)
	if err != nil {
		_ = listener.Close()
		return statusError{err, exitUsage}
	}
	defer func() { _ = dashboard.Close() }()
	ctx, stop := untilSignal()
	defer stop()
	cmd.PrintErrf("the dashboard is at http://%s%s/\n", listener.Addr(), strings.TrimSuffix("/"+strings.Trim(flags.base, "/"), "/"))
	return web.Serve(ctx, listener, dashboard, users)
}

// readUsers reads the files of all users. It returns nil, which asks for no user, if none is given.
func (f webFlags) readUsers() (*web.Users, error) {
	if len(f.users)+len(f.viewers) == 0 {
		return nil, nil
	}
	users := web.NewUsers()
	var errs []error
	read := func(flag string, list []string, viewer bool) {
		for _, text := range list {
			if err := readUser(users, text, viewer); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", flag, err))
			}
		}
	}
	read("--auth", f.users, false)
	read("--viewer", f.viewers, true)
	return users, errors.Join(errs...)
}

func readUser(users *web.Users, text string, viewer bool) error {
	name, path, found := strings.Cut(text, ":")
	if !found || path == "" {
		return errors.New("it must be USER:FILE, and FILE must have the hash of the password")
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return users.Add(name, file, viewer)
}
