package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/launcher/service"
)

// A bench is one run: the servers that it has started, and the systems that it can measure.
type bench struct {
	options
	progress io.Writer
	redis    *server
	// prefix is that of Belay's keys. It has a hash tag if the Redis is a Cluster, and is empty otherwise.
	prefix string
	// look is the bench's own connection, to observe Redis from outside; others are those to the other servers
	// of a list of shards.
	look   driver.Client
	others []driver.Client
	// sharded reports whether the keyspace is divided into shards, which only Belay knows.
	sharded bool
	// owned reports that all data in Redis is the bench's, and may be deleted: Redis was empty right before the
	// bench first wrote to it.
	owned    bool
	postgres *postgres // nil until a measurement needs it
	// self is the command that starts Belay's subject.
	self     subject.Command
	peers    []contender
	leftOut  []report.LeftOut
	versions map[string]string
}

// openBench starts Redis. The caller closes it.
func openBench(ctx context.Context, o options, progress io.Writer) (b *bench, err error) {
	b = &bench{options: o, progress: progress, versions: map[string]string{"go": runtime.Version(), "Belay": ourVersion(ctx)}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	path, err := os.Executable()
	if err != nil {
		return b, err
	}
	b.self = subject.Command{Path: path, Args: []string{"subject"}}
	if b.redis, err = startServer(ctx, o.redis); err != nil {
		return b, err
	}
	if err := b.openLooks(b.redis.url); err != nil {
		return b, err
	}
	if b.sharded && o.given["peers"] && len(o.peers) > 0 {
		return b, errors.New("--peers: they know no shards; give --peers none")
	} else if b.sharded {
		b.options.peers = nil
	}
	if err := b.mustBeEmpty(ctx); err != nil {
		return b, err
	}
	text, err := b.info(ctx)
	b.versions["redis"], _ = fieldOf(text, "redis_version")
	return b, err
}

// openLooks opens the bench's own connections to the servers of a URL, or of a list of shards.
func (b *bench) openLooks(text string) error {
	list, err := driver.SplitList(text)
	if err != nil {
		return err
	}
	if list == nil {
		url, shards, err := driver.SplitShards(text)
		if err != nil {
			return err
		}
		b.sharded, list = shards > 0, []driver.NamedURL{{URL: url}}
		if parts, err := driver.Structure(url); err == nil && strings.HasSuffix(parts.Scheme, "+cluster") {
			if b.prefix = clusterPrefix; shards > 0 {
				return errors.New("--redis: the bench looks at one node of a Cluster: leave ?shards out, or list servers as NAME=URL")
			}
		}
	}
	b.sharded = b.sharded || list[0].Name != ""
	for _, item := range list {
		look, err := goredisdriver.Open(item.URL, driver.ForPrefix(b.prefix))
		if err != nil { // what it answers then is no nil of an interface, and must not be closed
			return err
		}
		b.others = append(b.others, look)
	}
	b.look, b.others = b.others[0], b.others[1:]
	return nil
}

// looks are the bench's own connections to all servers.
func (b *bench) looks() []driver.Client { return append([]driver.Client{b.look}, b.others...) }

// ourVersion returns the commit of this checkout, or "unknown".
func ourVersion(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

func (b *bench) close() {
	if b.look != nil {
		if b.owned && b.redis.external() {
			_ = b.empty(context.Background()) // left as it was found; its owner sees if it was not
		}
		b.closeLooks()
	}
	if b.redis != nil {
		b.redis.stop()
	}
	if b.postgres != nil {
		b.postgres.stop()
	}
}

func (b *bench) closeLooks() {
	for _, look := range b.looks() {
		_ = look.Close()
	}
}

// say writes one line of progress.
func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintln(b.progress, b.hide(fmt.Sprintf(format, args...))) // a closed terminal is no reason to lose the figures
}

// mustBeEmpty refuses a database that is in use: the bench empties it between runs.
func (b *bench) mustBeEmpty(ctx context.Context) error {
	for _, look := range b.looks() {
		reply := look.Do(ctx, driver.Command("DBSIZE"))[0]
		if reply.Err != nil {
			return fmt.Errorf("look at %s: %w", b.hide(b.redis.url), reply.Err)
		}
		if keys, _ := reply.Value.(int64); keys != 0 {
			return fmt.Errorf("the database of --redis %s holds %d keys and would be emptied between runs: name an empty one, "+
				"such as redis://HOST:PORT/9", b.hide(b.redis.url), keys)
		}
	}
	return nil
}

// empty empties the Redis database, and returns when the server has freed everything. The first time it checks
// again that the database is empty: peers took minutes to install, and other programs may use it since.
func (b *bench) empty(ctx context.Context) error {
	if !b.owned {
		if err := b.mustBeEmpty(ctx); err != nil {
			return err
		}
		b.owned = true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // millions of keys take seconds
	defer cancel()
	var errs []error
	for _, look := range b.looks() {
		errs = append(errs, look.Do(ctx, driver.Command("FLUSHDB", "SYNC"))[0].Err)
	}
	return errors.Join(errs...)
}

func main() {
	// At these signals the bench cleans up and ends. SIGHUP (a closed terminal) is one unless nohup ignores it.
	endings := append(service.NotIgnored(syscall.SIGHUP), os.Interrupt, syscall.SIGTERM)
	ctx, stop := signal.NotifyContext(context.Background(), endings...)
	defer stop()
	// A closed pipe is an error of the write, and must not end the bench with servers and folders left
	// behind. The signal is not ignored either, because subjects would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", withoutCredentials(err.Error()))
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}
