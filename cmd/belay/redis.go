package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/inspect"
)

const defaultURL = "redis://127.0.0.1:6379/0"

// urlVariables may hold the URL if the flag is not given, the first one first. Programs that --exec runs do
// not inherit them.
var urlVariables = []string{"BELAY_REDIS_URL", "REDIS_URL"}

// redisFlags select the Redis, the client library and the prefix of the keys.
type redisFlags struct {
	url, client, prefix string
	// shard is the name of the one among the shards of the URL that a command is about.
	shard string
	set   *pflag.FlagSet
	// mask is the flag of the commands that show arguments: see masking.
	mask []string
}

func (f *redisFlags) register(flags *pflag.FlagSet) {
	f.set = flags
	// The environment is not a default of the flag: help shows defaults, and a URL may hold a password.
	flags.Var((*urlFlag)(&f.url), "redis", "Redis `URL`: redis[s]://[user:password@]host[:port][/db], unix:///path?db=N, "+
		"redis[s]+sentinel://host1,host2,host3/NAME, or redis[s]+cluster://host1,host2 with --prefix '{NAME}' or ?shards=N; ?password_file=FILE, "+
		"?ca=FILE, ?cert=FILE&key=FILE; NAME=URL for each of several shards (default "+defaultURL+")")
	flags.StringVar(&f.client, "client", "go-redis", "Redis client to use: go-redis or rueidis")
	flags.StringVar(&f.shard, "shard", "", "only the shard of this `NAME`, of those of the URL")
	flags.StringVar(&f.prefix, "prefix", "", "prefix of every key, a colon is added (default none)")
}

// A urlFlag is the value of --redis, which may be given several times. Set returns no error, because it would
// be shown with the value, which may hold a password.
type urlFlag string

func (u *urlFlag) String() string { return string(*u) }
func (u *urlFlag) Type() string   { return "string" }

func (u *urlFlag) Set(url string) error {
	*u = urlFlag(driver.AddURL(string(*u), url))
	return nil
}

// address returns the URL. It may hold a password and must not be printed.
func (f *redisFlags) address() string {
	return cmp.Or(f.url, os.Getenv(urlVariables[0]), os.Getenv(urlVariables[1]), defaultURL)
}

// check refuses an empty URL: a variable of a script was probably empty, and the default could be another
// Redis.
func (f *redisFlags) check() error {
	if f.url == "" && f.set.Changed("redis") {
		return usage("--redis: the URL is empty; leave it out for BELAY_REDIS_URL, REDIS_URL or %s", defaultURL)
	}
	return nil
}

// dial makes the driver of one keyspace, by the client library that the flags name.
func (f *redisFlags) dial(url string, options ...driver.Option) (driver.Client, error) {
	switch f.client {
	case "go-redis":
		return goredisdriver.Open(url, options...)
	case "rueidis":
		return rueidisdriver.Open(url, options...)
	}
	return nil, fmt.Errorf("--client %q: it must be go-redis or rueidis", f.client)
}

// connect makes a client of all shards of the URL, or of its one keyspace, without a connection. It sets the
// prefix of cfg.
func (f *redisFlags) connect(cfg client.Config) (*client.Client, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	cfg.Prefix = f.prefix
	c, err := client.Open(f.address(), cfg, f.dial)
	if err != nil {
		return nil, statusError{err, exitUsage}
	}
	return c, nil
}

// connectChosen is connect, and returns the shards too that the flags choose. After an error no driver is open.
func (f *redisFlags) connectChosen() (*client.Client, []inspect.Shard, error) {
	c, err := f.connect(client.Config{})
	if err != nil {
		return nil, nil, err
	}
	shards, err := f.chosen(c)
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return c, shards, nil
}

// open makes the client of one keyspace, without a connection. With shards that is the one of --shard. It sets
// the prefix of that keyspace.
func (f *redisFlags) open() (driver.Client, error) {
	c, err := f.connect(client.Config{})
	if err != nil {
		return nil, err
	}
	space, err := f.only(c)
	if err != nil {
		return nil, err
	}
	f.prefix = space.Prefix
	return space.Driver, nil
}

// only returns the keyspace of --shard, or the one that there is, and closes the drivers of all others; after
// an error, of all.
func (f *redisFlags) only(c *client.Client) (chosen client.Space, err error) {
	shards, err := f.chosen(c)
	switch {
	case err != nil:
	case len(shards) > 1:
		err = usage("this command is about one shard: choose one of the %d with --shard NAME", len(shards))
	default:
		chosen = spaceOf(c, shards[0])
	}
	if err != nil {
		_ = c.Close()
		return chosen, err
	}
	for _, space := range c.Spaces() {
		if space.Name != chosen.Name {
			_ = space.Driver.Close()
		}
	}
	return chosen, nil
}

// clientOfChosen makes the client of all shards of the URL, or of the one of --shard.
func (f *redisFlags) clientOfChosen() (*client.Client, error) {
	if f.shard == "" {
		return f.connect(client.Config{})
	}
	redis, err := f.open()
	if err != nil {
		return nil, err
	}
	return f.keyspace(redis)
}

// keyspace returns a client of the keyspace that the flags name.
func (f *redisFlags) keyspace(redis driver.Client) (*client.Client, error) {
	c, err := client.New(redis, client.Config{Prefix: f.prefix})
	if err != nil {
		return nil, statusError{err, exitUsage}
	}
	return c, nil
}

// withFleet makes the body of a command that reads or acts on all shards of the URL, or on the one of --shard.
func withFleet(at *redisFlags, do func(*cobra.Command, *inspect.Fleet, []string) error) func(*cobra.Command, []string) error {
	return withShardsOf(at, func(cmd *cobra.Command, _ *client.Client, shards []inspect.Shard, args []string) error {
		if len(shards) == 1 {
			shards[0].Name = ""
		}
		return do(cmd, inspect.NewFleet(shards...), args)
	})
}

// withInspector makes the body of a command that reads a keyspace or acts on it: with shards, on each of them.
func withInspector(
	at *redisFlags, do func(*cobra.Command, *inspect.Inspector, []string) error,
) func(*cobra.Command, []string) error {
	return withShardsOf(at, func(cmd *cobra.Command, _ *client.Client, shards []inspect.Shard, args []string) error {
		return perShard(cmd, shards, func(shard inspect.Shard) error { return do(cmd, shard.Inspector, args) })
	})
}

// withHome makes the body of a command about what only one shard has, the first bound one: periodic jobs.
// --shard names another one.
func withHome(at *redisFlags, do func(*cobra.Command, *inspect.Inspector, []string) error) func(*cobra.Command, []string) error {
	return withShardsOf(at, func(cmd *cobra.Command, c *client.Client, shards []inspect.Shard, args []string) error {
		if len(shards) > 1 {
			shards = shards[c.Home():]
		}
		return do(cmd, shards[0].Inspector, args)
	})
}

// withShardsOf makes the body of a command that has the shards that the flags choose, with their mask.
func withShardsOf(
	at *redisFlags, do func(*cobra.Command, *client.Client, []inspect.Shard, []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, shards, err := at.connectChosen()
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		mask, err := at.masks(cmd)
		if err != nil {
			return err
		}
		for n := range shards {
			shards[n].Inspector = shards[n].WithMask(mask)
		}
		return do(cmd, c, shards, args)
	}
}

// withRedis makes the body of a command that has a client.
func withRedis(at *redisFlags, do func(*cobra.Command, driver.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		redis, err := at.open()
		if err != nil {
			return err
		}
		defer func() { _ = redis.Close() }()
		return do(cmd, redis, args)
	}
}

// admittedTimeout bounds the question of admitted: a program that goes on without an answer waits no longer.
const admittedTimeout = 2 * time.Second

// admitted returns an error if Redis denies this program access, or a permission that every program of the role
// needs. A Redis that is away is no error: programs that run on wait for it.
func admitted(redis driver.Client, prefix string, role check.Role) error {
	ctx, cancel := context.WithTimeout(context.Background(), admittedTimeout)
	defer cancel()
	_, err := check.Permitted(ctx, redis, role, check.Config{Prefix: prefix})
	if driver.Denial(err) == "" {
		return nil
	}
	return err
}

// maskVariable has the classes of --mask for all commands that do not have the flag on their command line.
const maskVariable = "BELAY_MASK"

// maskHelp is what the help of a command that shows arguments says of those that it does not show.
const maskHelp = `

An encrypted argument is shown as "[encrypted, key ID]". --mask CLASS, or ` + maskVariable + `, also hides the arguments and results of
jobs of a class, as "[masked]", in --json too: with them, the fields of the payload that programs add. No --text finds a
job by what is hidden. Error messages and tags are shown as they are.`

// masking adds the flag --mask to a command that shows arguments.
func (f *redisFlags) masking(cmd *cobra.Command) *cobra.Command {
	cmd.Long += maskHelp
	cmd.Flags().StringSliceVar(&f.mask, "mask", nil, "show no arguments of jobs of this `CLASS`; may be repeated, or a list with commas (default $"+maskVariable+")")
	return cmd
}

// masks returns the mask that the flag or the environment asks for; nil for none. An empty flag is refused: the
// variable of a script was probably empty, and everything would be shown.
func (f *redisFlags) masks(cmd *cobra.Command) (inspect.Mask, error) {
	classes := f.mask
	given := cmd != nil && cmd.Flags().Changed("mask")
	if !given {
		classes = strings.FieldsFunc(os.Getenv(maskVariable), func(r rune) bool { return r == ',' })
	}
	for n := range classes {
		classes[n] = strings.TrimSpace(classes[n])
	}
	switch {
	case given && len(classes) == 0, slices.Contains(classes, ""):
		return nil, usage("--mask: it must name a class; leave it out to show all arguments")
	case len(classes) == 0:
		return nil, nil
	}
	return inspect.MaskClasses(classes...), nil
}
