package inspect

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// facts are all that Check has read. Judges read them and nothing else.
type facts struct {
	cfg CheckConfig
	// refused is what the server said instead of letting us in. Nothing else is known then.
	refused *driver.ServerError
	trips   []trip // none when TIME is denied
	scripts
	permissions permissions
	// info and config are nil when the server does not say.
	info, config map[string]string
	// key is what the server said when asked for a key of ours.
	key      error
	sidekiqs []string // versions of Sidekiq's processes in our keyspace; empty for one that does not say
}

// A trip is one round trip, and how far Redis' clock was ahead of ours in the middle of it.
type trip struct{ took, ahead time.Duration }

// trips is how many round trips are measured. Of five the middle one is no outlier, and the shortest a good look at the
// clock.
const trips = 5

// settings are the parameters that judges ask for. No other is ever read: some are passwords.
var settings = []string{
	"appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error", "min-replicas-to-write", "min-replicas-max-lag",
	"maxmemory-policy", "timeout", "tcp-keepalive", "proto-max-bulk-len", "client-query-buffer-limit",
	"client-output-buffer-limit",
}

// readFacts reads all facts. Its error is that no Redis answers.
func readFacts(ctx context.Context, client driver.Client, cfg CheckConfig) (*facts, error) {
	f := &facts{cfg: cfg}
	if err := f.readTrips(ctx, client); err != nil || f.refused != nil {
		return f, err
	}
	f.readPermissions(ctx, client)
	if err := f.readServer(ctx, client); err != nil {
		return f, err
	}
	f.readSidekiqs(ctx, client)
	return f, ctx.Err()
}

// readTrips measures round trips by TIME, which costs the server no more than PING and tells its clock as well. The first
// one may have to dial and is not counted.
func (f *facts) readTrips(ctx context.Context, client driver.Client) error {
	for i := range 1 + trips {
		sent := time.Now()
		reply := client.Do(ctx, lua.AskTime)[0]
		took := time.Since(sent)
		if reply.Err != nil {
			return f.judgeRefusal(reply.Err)
		}
		if now, err := lua.TimeOf(reply); err == nil && i > 0 {
			// Wall clocks on both sides, compared in the middle of the trip.
			f.trips = append(f.trips, trip{took, now.Sub(sent.Round(0).Add(took / 2))})
		}
	}
	return nil
}

// judgeRefusal tells what keeps us out from what only TIME is refused for. Its error is that nobody answers.
func (f *facts) judgeRefusal(err error) error {
	var refused *driver.ServerError
	var unsent *driver.NotSentError
	switch {
	case !errors.As(err, &refused):
		return err
	case errors.As(err, &unsent), refused.Code == "NOAUTH", strings.Contains(refused.Message, "max number of clients"):
		f.refused = refused
	}
	return nil
}

// readServer reads what the server says of itself.
func (f *facts) readServer(ctx context.Context, client driver.Client) error {
	calls := []driver.Call{driver.Command("SMISMEMBER", lua.NewKeys(f.cfg.Prefix).Paused(), "v")}
	// What is known to be denied is not tried: it would be noted in the ACL LOG, at each start of each worker.
	mayInfo, mayConfig := f.permissions.may("info"), f.permissions.may("config|get")
	if mayInfo {
		calls = append(calls, driver.Command("INFO"))
	}
	if mayConfig {
		for _, name := range settings {
			calls = append(calls, driver.Command("CONFIG", "GET", name))
		}
	}
	replies := client.Do(ctx, calls...)
	f.key = replies[0].Err
	var refused *driver.ServerError
	if f.key != nil && !errors.As(f.key, &refused) {
		return f.key
	}
	replies = replies[1:]
	if mayInfo {
		f.info = readInfo(replies[0])
		replies = replies[1:]
	}
	for _, reply := range replies {
		if pair, _ := reply.Value.([]any); len(pair) == 2 {
			name, _ := pair[0].(string)
			value, _ := pair[1].(string)
			if f.config == nil {
				f.config = map[string]string{}
			}
			f.config[name] = value
		}
	}
	return nil
}

// readInfo reads lines of the form name:value.
func readInfo(reply driver.Reply) map[string]string {
	text, _ := reply.Value.(string)
	if text == "" {
		return nil
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// sidekiqsAtMost is how many processes are looked at for Sidekiq's: what one tells, hundreds tell.
const sidekiqsAtMost = 2 * processesAtOnce

// readSidekiqs reads which processes of Sidekiq work in our keyspace. What cannot be read of them is not worth a word here.
func (f *facts) readSidekiqs(ctx context.Context, client driver.Client) {
	i := New(client, f.cfg.Prefix)
	var r reading
	names := r.texts("processes", client.Do(ctx, driver.Command("SRANDMEMBER", i.keys.Processes(), strconv.Itoa(sidekiqsAtMost)))[0])
	for start := 0; start < len(names); start += processesAtOnce {
		for _, p := range i.processPage(ctx, &r, names[start:min(start+processesAtOnce, len(names))], time.Now()) {
			if !p.Belay && p.State == StateAlive {
				f.sidekiqs = append(f.sidekiqs, p.Version)
			}
		}
	}
}

// setting is a parameter of the configuration; not ok when it cannot be seen.
func (f *facts) setting(name string) (string, bool) {
	value, ok := f.config[name]
	return value, ok
}

// number is a number that INFO tells; not ok when it does not.
func (f *facts) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(f.info[name], 10, 64)
	return n, err == nil
}

// limit is a number of the configuration; not ok when it cannot be seen.
func (f *facts) limit(name string) (int64, bool) {
	n, err := strconv.ParseInt(f.config[name], 10, 64)
	return n, err == nil
}
