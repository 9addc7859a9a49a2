package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A Shard is one of several keyspaces over which a Client spreads its jobs: one Redis is one thread, and N
// shards on N servers carry N times as much. All programs of a fleet have the same list.
type Shard struct {
	// Name is 1 to 32 of the letters a to z, digits and dashes. It never changes: jobs are placed by it.
	Name string
	// URL is where its Redis is, for Open; Driver is a driver of the program's own instead. Default: those of
	// the Client.
	URL    string
	Driver driver.Client
	// Prefix precedes every key, as Config.Prefix does. Default: with a URL or a Driver of its own that of the
	// Client, and otherwise {PREFIX:NAME}, with the Client's prefix or "belay": so the shards of one Redis
	// Cluster spread over its slots.
	Prefix string
	// Closed keeps jobs without a bound key away, before the shard is removed. Unbound keeps those with one
	// away, while the shard is new. A bound key is a unique lock, a Key, a limit, a batch or a ShardKey.
	// Defaults: off.
	Closed, Unbound bool
}

// Shards returns a list of n shards, "0" to "n-1", in the Redis of the Client: on a Redis Cluster they spread
// over its nodes, and move with the slots when nodes are added. Choose n once, a few times the number of
// primaries that you expect: a client with another number is refused. The parameter shards=n of a URL is the
// same.
func Shards(n int) []Shard {
	list := make([]Shard, max(n, 0))
	for i := range list {
		list[i].Name = strconv.Itoa(i)
	}
	return list
}

// ErrShards means that the record of a keyspace names another shard, or another list of shards, than the
// configuration: two programs would look for one lock in two places. Nothing was pushed there.
var ErrShards = errors.New("the shards of this program are not those of the programs before it")

// Open returns a Client for a URL, whose parameter shards asks for that many Shards, or for a list of Shards,
// NAME=URL with white space between them: see driver.SplitList. connect makes the driver of a keyspace, such as
// goredisdriver.Open. Nothing is dialled.
func Open(url string, cfg Config, connect func(url string, options ...driver.Option) (driver.Client, error)) (c *Client, err error) {
	url, shards, err := shardsOf(url)
	switch {
	case err != nil:
		return nil, err
	case len(shards) > 0 && len(cfg.Shards) > 0:
		return nil, errors.New("both the URL and the config list shards: use one of them")
	case len(shards) > 0:
		cfg.Shards = shards
	}
	var opened []driver.Client
	defer func() {
		if err != nil {
			for _, d := range opened {
				_ = d.Close()
			}
		}
	}()
	open := func(url, prefix string) driver.Client {
		d, failed := connect(url, driver.ForPrefix(prefix))
		if failed != nil {
			err = errors.Join(err, failed)
			return nil
		}
		opened = append(opened, d)
		return d
	}
	if len(cfg.Shards) == 0 {
		if d := open(url, cfg.Prefix); err == nil {
			c, err = New(d, cfg)
		}
		return c, err
	}
	cfg.Shards = slices.Clone(cfg.Shards)
	for i := range cfg.Shards {
		shard := &cfg.Shards[i]
		shard.Prefix = shard.PrefixIn(cfg.Prefix)
		if shard.Driver != nil {
			continue
		}
		at := url
		if shard.URL != "" {
			at = shard.URL
		}
		if shard.Driver = open(at, shard.Prefix); err != nil {
			return nil, fmt.Errorf("shard %s: %w", shard.Name, err)
		}
		shard.URL = ""
	}
	c, err = New(nil, cfg)
	return c, err
}

// shardsOf returns the shards that a text for Open asks for, and the URL of those that have none.
func shardsOf(text string) (url string, shards []Shard, err error) {
	list, err := driver.SplitList(text)
	if err != nil {
		return "", nil, err
	}
	for _, item := range list {
		shards = append(shards, Shard{Name: item.Name, URL: item.URL, Closed: item.Closed, Unbound: item.Unbound})
	}
	if len(shards) > 0 {
		return "", shards, nil
	}
	url, n, err := driver.SplitShards(text)
	return url, Shards(n), err
}

// PrefixIn returns the prefix of the keys of the shard in a Client with this prefix.
func (s Shard) PrefixIn(client string) string {
	switch {
	case s.Prefix != "":
		return s.Prefix
	case s.URL != "" || s.Driver != nil:
		return client
	case client == "":
		client = "belay"
	}
	return "{" + strings.TrimSuffix(strings.TrimPrefix(client, "{"), "}") + ":" + s.Name + "}"
}

// newSpaces returns the spaces of a client, and the placement among them if there are several.
func newSpaces(d driver.Client, cfg *Config, log *refusals) ([]*space, *placement, error) {
	if len(cfg.Shards) == 0 {
		if d == nil {
			return nil, nil, errors.New("no client: pass a driver.Client")
		}
		return []*space{newSpace(d, cfg.Prefix, cfg, log)}, nil, lua.CheckPrefix(cfg.Prefix)
	}
	var errs []error
	var spaces []*space
	rules := make([]shardRule, len(cfg.Shards))
	for i, shard := range cfg.Shards {
		rules[i] = shardRule{name: shard.Name, closed: shard.Closed, unbound: shard.Unbound}
		prefix, own := shard.PrefixIn(cfg.Prefix), shard.Driver
		if own == nil {
			own = d
		}
		if shard.URL != "" || own == nil {
			errs = append(errs, fmt.Errorf("shard %q: pass its Driver; only Open opens a URL", shard.Name))
			continue
		}
		errs = append(errs, lua.CheckPrefix(prefix))
		spaces = append(spaces, newSpace(own, prefix, cfg, log))
		spaces[len(spaces)-1].name = shard.Name
	}
	place, err := newPlacement(rules)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, nil, err
	}
	for i, s := range spaces {
		s.record = lua.Shard{Name: rules[i].name}
		for _, at := range place.bound {
			s.record.Bound = append(s.record.Bound, rules[at].name)
		}
		slices.Sort(s.record.Bound)
	}
	return spaces, place, nil
}

// admit compares the record of the keyspace with the configuration, once, and records it in a new keyspace. The
// error is an ErrShards if they differ. A client without shards has nothing to compare.
func (s *space) admit(ctx context.Context) error {
	if s.name == "" || s.admitted.Load() {
		return nil
	}
	recorded, err := s.keys.ReadShard().Do(ctx, s.driver)
	if err == nil && recorded.Name == "" {
		recorded, err = s.keys.RecordShard(s.record).Do(ctx, s.driver)
	}
	switch {
	case driver.Forbidden(err): // this user may only read, or not even that
	case err != nil:
		return fmt.Errorf("read which shard it is: %w", err)
	case recorded.Name != s.record.Name:
		return fmt.Errorf("%w: its keyspace is that of shard %q", ErrShards, recorded.Name)
	case !slices.Equal(recorded.Bound, s.record.Bound):
		return fmt.Errorf("%w: the bound shards are recorded as %q, and here they are %q", ErrShards,
			strings.Join(recorded.Bound, " "), strings.Join(s.record.Bound, " "))
	}
	s.admitted.Store(true)
	return nil
}

// of names the shard in an error about it.
func (s *space) of(err error) error {
	if err == nil || s.name == "" {
		return err
	}
	return fmt.Errorf("shard %s: %w", s.name, err)
}

// Space is one keyspace of a Client.
type Space struct {
	// Name is that of its shard; empty for a Client without shards.
	Name   string
	Driver driver.Client
	// Prefix is that of its Keys.
	Prefix string
	Keys   lua.Keys

	space *space
}

// Admit compares the list of shards with the one that the keyspace has recorded; see ErrShards. It sends
// nothing once that has succeeded, and for a Client without shards.
func (s Space) Admit(ctx context.Context) error { return s.space.of(s.space.admit(ctx)) }

// Record returns what Admit compares.
func (s Space) Record() lua.Shard { return s.space.record }

// Spaces returns the keyspaces of the Client in the order of Config.Shards: one without shards.
func (c *Client) Spaces() []Space {
	list := make([]Space, len(c.spaces))
	for i, s := range c.spaces {
		list[i] = Space{Name: s.name, Driver: s.driver, Prefix: s.prefix, Keys: s.keys, space: s}
	}
	return list
}

// Home returns the index in Spaces of the keyspace with the definitions of periodic jobs: the first bound one.
func (c *Client) Home() int {
	if c.place == nil {
		return 0
	}
	return c.place.bound[0]
}

// Admit admits all keyspaces of the Client: see Space.Admit. A shard that is away is no error unless all of
// them are; it is admitted before the first push there.
func (c *Client) Admit(ctx context.Context) error { return c.all(ctx, (*space).admit) }

// Greet checks that each Redis of the Client answers and is not too old, and admits its keyspaces as Admit
// does.
func (c *Client) Greet(ctx context.Context) error {
	return c.all(ctx, func(s *space, ctx context.Context) error {
		if err := s.driver.Do(ctx, driver.Command("PING"))[0].Err; err != nil {
			return err //nolint:wrapcheck // it names the command
		}
		if _, err := driver.CheckVersion(ctx, s.driver); err != nil {
			return err
		}
		return s.admit(ctx)
	})
}

func (c *Client) all(ctx context.Context, do func(s *space, ctx context.Context) error) error {
	errs := make([]error, len(c.spaces))
	each(len(c.spaces), func(i int) { errs[i] = c.spaces[i].of(do(c.spaces[i], ctx)) })
	var refused, away []error
	for _, err := range errs {
		switch {
		case err == nil:
		case driver.Outage(err) && driver.Denial(err) == "" && !errors.Is(err, ErrShards):
			away = append(away, err)
		default:
			refused = append(refused, err)
		}
	}
	if len(refused) == 0 && len(away) < len(c.spaces) {
		return nil
	}
	return errors.Join(append(refused, away...)...)
}

const (
	// A shard that has failed is left out of the turns for firstOut, and for twice as long each time up to
	// maxOut: a caller whose push tries it waits for the failure.
	firstOut = time.Second
	maxOut   = 30 * time.Second
)

// leaveOut leaves the shard out of the turns for a while, after a failure of its Redis.
func (s *space) leaveOut() {
	pause := min(max(2*time.Duration(s.outFor.Load()), firstOut), maxOut)
	s.outFor.Store(int64(pause))
	s.outUntil.Store(int64(time.Since(s.born) + pause))
}

// leftOut reports whether the shard is left out now.
func (s *space) leftOut() bool {
	until := s.outUntil.Load()
	return until != 0 && int64(time.Since(s.born)) < until
}

// putBack ends leaveOut.
func (s *space) putBack() {
	if s.outFor.Load() != 0 {
		s.outFor.Store(0)
		s.outUntil.Store(0)
	}
}
