package check

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// facts are all that is read. Checks use nothing else.
type facts struct {
	cfg Config
	// refused is the server's refusal of access. Nothing else is known then.
	refused *driver.ServerError
	trips   []trip // none if TIME is denied
	version string // empty if the server hides it
	// unverified reports that the connection is encrypted, and that nothing shows to whom.
	unverified bool
	Permissions
	// info and config are nil if they are denied.
	info, config map[string]string
	// key is the error of a command on a key of Belay's.
	key      error
	sidekiqs []string // versions of Sidekiq's processes in this keyspace; empty for a process that does not report one
}

// A trip is one round trip, and how far Redis' clock was ahead of this machine's in the middle of it.
type trip struct{ took, ahead time.Duration }

// trips is how many round trips are measured. Of five, the median is not an outlier, and the shortest one
// compares the clocks well.
const trips = 5

// settings are the parameters that checks use. No others are read, because some are passwords.
var settings = []string{
	"appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error", "min-replicas-to-write", "min-replicas-max-lag",
	"maxmemory-policy", "timeout", "tcp-keepalive", "proto-max-bulk-len", "client-query-buffer-limit",
	"client-output-buffer-limit",
}

// readFacts reads all but the permissions if these are known already.
func readFacts(ctx context.Context, client driver.Client, cfg Config, may Permissions) (*facts, error) {
	f := &facts{cfg: cfg, Permissions: may, unverified: unverified(client)}
	if err := f.readTrips(ctx, client); err != nil || f.refused != nil {
		return f, err
	}
	var old *driver.OldServerError
	var err error
	if f.version, err = driver.CheckVersion(ctx, client); errors.As(err, &old) {
		text, _ := client.Do(ctx, driver.Command("INFO"))[0].Value.(string)
		f.info = driver.ParseInfo(text) // which names servers that are not Redis
		return f, nil                   // what more could be found would follow from the version
	}
	if err = f.noteRefusal(err); err != nil || f.refused != nil {
		return f, err
	}
	f.readPermissions(ctx, client)
	if err := f.readServer(ctx, client); err != nil {
		return f, err
	}
	f.readSidekiqs(ctx, client)
	return f, ctx.Err()
}

// readTrips measures round trips by TIME, which costs no more than PING and also returns the server's clock.
// The first trip may include a dial and does not count.
func (f *facts) readTrips(ctx context.Context, client driver.Client) error {
	for i := range 1 + trips {
		sent := time.Now()
		reply := client.Do(ctx, lua.AskTime)[0]
		took := time.Since(sent)
		if reply.Err != nil {
			return f.noteRefusal(reply.Err)
		}
		if now, err := lua.TimeOf(reply); err == nil && i > 0 {
			// Round(0) drops the monotonic clock: both sides are wall clocks, compared in the middle of the
			// trip.
			f.trips = append(f.trips, trip{took, now.Sub(sent.Round(0).Add(took / 2))})
		}
	}
	return nil
}

// noteRefusal records err if the server refuses access, ignores it if only TIME is denied, and returns it if
// no server answered.
func (f *facts) noteRefusal(err error) error {
	var refused *driver.ServerError
	var unsent *driver.NotSentError
	switch {
	case err == nil:
	case !errors.As(err, &refused):
		return err
	case errors.As(err, &unsent), refused.Code == "NOAUTH", strings.Contains(refused.Message, "max number of clients"):
		f.refused = refused
	}
	return nil
}

func (f *facts) readServer(ctx context.Context, client driver.Client) error {
	calls := []driver.Call{driver.Command("SMISMEMBER", lua.NewKeys(f.cfg.Prefix).Paused(), "v")}
	// Commands that are known to be denied are not tried: each start of each worker would add them to the ACL
	// LOG.
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
		text, _ := replies[0].Value.(string)
		f.info = driver.ParseInfo(text)
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

// sidekiqsAtMost bounds the processes that are read to find Sidekiq's: in most fleets they have one version.
const sidekiqsAtMost = 32

// readSidekiqs reads the versions of Sidekiq's processes in this keyspace. A process is Sidekiq's if it has
// announced itself and has no entry among Belay's leases; one that has ended is only listed. It ignores errors,
// which belay status shows.
func (f *facts) readSidekiqs(ctx context.Context, client driver.Client) {
	keys := lua.NewKeys(f.cfg.Prefix)
	identities, _ := client.Do(ctx, driver.Command("SRANDMEMBER", keys.Processes(), strconv.Itoa(sidekiqsAtMost)))[0].Value.([]any)
	if len(identities) == 0 {
		return
	}
	var calls []driver.Call
	for _, identity := range identities {
		name, _ := identity.(string)
		calls = append(calls, driver.Command("ZSCORE", keys.Alive(), name), driver.Command("HMGET", keys.Process(name), "info"))
	}
	for replies := range slices.Chunk(client.Do(ctx, calls...), 2) {
		_, belays := replies[0].Value.(string)
		fields, _ := replies[1].Value.([]any)
		if belays || len(fields) == 0 {
			continue
		}
		if info, _ := fields[0].(string); info != "" {
			var about struct {
				Version string `json:"version"`
			}
			_ = json.Unmarshal([]byte(info), &about) // what cannot be read is an old version
			f.sidekiqs = append(f.sidekiqs, about.Version)
		}
	}
}

// number reads an integer of INFO or CONFIG.
func number(from map[string]string, name string) (int64, bool) {
	n, err := strconv.ParseInt(from[name], 10, 64)
	return n, err == nil
}
