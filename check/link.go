package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// checkClock compares the clocks. Belay uses Redis' clock; people and Ruby programs use their own.
func checkClock(f *facts) Finding {
	if len(f.trips) == 0 {
		return silence // TIME is denied; checkPermissions says so
	}
	best := slices.MinFunc(f.trips, func(a, b trip) int { return int(a.took - b.took) })
	// The moment at which the server read its clock is known to half a trip.
	unsure := best.took / 2
	off, way := best.ahead, "ahead of"
	if off < 0 {
		off, way = -off, "behind"
	}
	if off-unsure <= tolerableOffset {
		return ok("Redis' clock and this machine's agree within %v", (off + unsure).Round(10*time.Microsecond))
	}
	return warn("run an NTP client (chrony, systemd-timesyncd) on both machines",
		"Redis' clock is %v %s this machine's. Belay uses Redis' clock; times that a program computes with its own clock, "+
			"as Ruby does for perform_in, are wrong by as much", off.Round(time.Millisecond), way)
}

// tolerableOffset is far above the offset of machines with NTP, and does not matter in a job's time.
const tolerableOffset = time.Second

// slowTrip is a round trip at which a worker with 25 processors runs at most about 1,750 jobs a second,
// however short they are, because a processor gets its next job a trip after the last. Within a data centre a
// trip takes a twentieth of it.
const slowTrip = 10 * time.Millisecond

func checkLatency(f *facts) Finding {
	if len(f.trips) == 0 {
		return silence
	}
	took := make([]time.Duration, len(f.trips))
	for i, trip := range f.trips {
		took[i] = trip.took
	}
	slices.Sort(took)
	middle := took[len(took)/2]
	text := fmt.Sprintf("a round trip takes %v (%v to %v)", middle.Round(time.Microsecond), took[0].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond))
	if middle > slowTrip {
		return warn("run workers near Redis; look for slow commands (SLOWLOG GET) and for a machine short of CPU", "%s", text)
	}
	return ok("%s", text)
}

// ownConnections is how many connections a worker opens beside one for each queue that it waits for: four for
// its duties, up to four for takes and settles, one on which a poller that stops wakes the next, and two for
// everything else.
const ownConnections = 11

func checkClients(f *facts) Finding {
	limit, known := number(f.info, "maxclients")
	open, counted := number(f.info, "connected_clients")
	if !known || !counted {
		return silence
	}
	waits := min(len(f.cfg.Queues), lua.MaxWaits)
	if slices.ContainsFunc(f.cfg.Queues, job.IsPattern) {
		waits = lua.MaxWaits
	}
	wanted, left := int64(ownConnections+waits), limit-open
	text := fmt.Sprintf("%d of %d connections are open; a worker opens up to %d, whatever its concurrency", open, limit, wanted)
	switch {
	case left < wanted:
		return bad("raise maxclients and the limit of open files, or run fewer processes with a higher concurrency", "%s: the next one may not get all of its connections", text)
	case left < limit/10:
		return warn("raise maxclients and the limit of open files", "%s", text)
	}
	return ok("%s", text)
}

// minTimeout is an idle timeout without harm, in seconds: a worker uses each connection more often.
const minTimeout = 60

func checkIdle(f *facts) Finding {
	timeout, known := number(f.config, "timeout")
	keepalive, alsoKnown := number(f.config, "tcp-keepalive")
	switch {
	case !known || !alsoKnown:
		return silence
	case keepalive == 0:
		return warn("CONFIG SET tcp-keepalive 300", "tcp-keepalive is 0: connections of vanished machines stay open for ever and use up maxclients")
	case timeout > 0 && timeout < minTimeout:
		return warn("CONFIG SET timeout 0", "Redis closes connections that are idle for %d seconds: workers and clients dial again and again, and a push may fail in between", timeout)
	}
	return ok("timeout %d, tcp-keepalive %d", timeout, keepalive)
}

// minBuffer is a query buffer with room for several pipelines of maximum size.
const minBuffer = 32 << 20

// checkSizes requires room for the largest job, with all that Belay adds to it.
func checkSizes(f *facts) Finding {
	bulk, known := number(f.config, "proto-max-bulk-len")
	buffer, alsoKnown := number(f.config, "client-query-buffer-limit")
	largest := int64(f.cfg.PayloadLimit + job.PayloadSlack)
	switch {
	case !known || !alsoKnown:
		return silence
	case bulk < largest:
		return bad("CONFIG SET proto-max-bulk-len 512mb", "proto-max-bulk-len is %d: Redis closes a connection that sends a job of the maximum size (%d bytes), "+
			"so the end of its run cannot be stored", bulk, largest)
	case buffer < minBuffer:
		return warn("CONFIG SET client-query-buffer-limit 1gb", "client-query-buffer-limit is %d: Redis closes connections that push many large jobs at once", buffer)
	}
	return ok("proto-max-bulk-len and client-query-buffer-limit leave room for jobs of %d bytes", largest)
}

// checkOutput requires that the output buffer limit leaves room for two pages of jobs. Redis closes a slow
// connection that exceeds the limit.
func checkOutput(f *facts) Finding {
	limits, known := f.config["client-output-buffer-limit"]
	if !known {
		return silence
	}
	hard, soft := outputLimits(limits)
	needed := 2 * int64(lua.MaxBytes+f.cfg.PayloadLimit+job.PayloadSlack)
	for _, limit := range []int64{hard, soft} {
		if limit > 0 && limit < needed {
			return warn(fmt.Sprintf(`CONFIG SET client-output-buffer-limit "normal 0 0 0", or at least %d`, needed),
				"client-output-buffer-limit is %d for normal connections: Redis closes those that read a few large jobs at once. "+
					"Belay asks for less then, so large jobs are taken, promoted and recovered slowly", limit)
		}
	}
	return ok("client-output-buffer-limit leaves room for the replies of %d bytes", lua.MaxBytes)
}

// outputLimits returns the hard and the soft limit of normal connections in bytes, 0 for none. The value
// lists, for each class of connections, its name, both limits, and how many seconds the soft one may be
// exceeded.
func outputLimits(text string) (hard, soft int64) {
	words := strings.Fields(text)
	for ; len(words) >= 4; words = words[4:] {
		if words[0] == "normal" {
			hard, _ = strconv.ParseInt(words[1], 10, 64)
			soft, _ = strconv.ParseInt(words[2], 10, 64)
		}
	}
	return hard, soft
}

// checkSidekiq looks for processes that cannot read milliseconds: Sidekiq reads and writes them from version
// 8 on. Older versions read them as seconds, some fifty thousand years ahead.
func checkSidekiq(f *facts) Finding {
	if len(f.sidekiqs) == 0 {
		return silence
	}
	old := slices.ContainsFunc(f.sidekiqs, func(version string) bool {
		major, err := strconv.Atoi(strings.Split(version, ".")[0])
		return err != nil || major < 8 // versions before 7 do not report one
	})
	text := fmt.Sprintf("Sidekiq's processes work in this keyspace too (%d seen)", len(f.sidekiqs))
	switch {
	case old && f.cfg.Unit == job.Millis:
		return bad("write times in seconds (--timestamps seconds), which every Sidekiq reads", "%s, some older than version 8: "+
			"they misread the milliseconds that this worker writes", text)
	case old:
		return ok("%s, some older than version 8: leave --timestamps at seconds", text)
	}
	return ok("%s, all of version 8 or newer", text)
}

func checkSight(f *facts) Finding {
	const advice = "look them up where the service shows its parameters, or permit INFO and CONFIG GET to the user that runs this check"
	const parameters = "appendfsync, save, min-replicas-to-write, timeout, tcp-keepalive and proto-max-bulk-len"
	switch {
	case f.info == nil && f.config == nil:
		return warn(advice, "INFO and CONFIG are refused: cannot see the version, the role, persistence, memory, %s", parameters)
	case f.info == nil:
		return warn(advice, "INFO is refused: cannot see the version, the role, memory and connections")
	case f.config == nil:
		return warn(advice, "CONFIG is refused, as on many managed services: cannot see %s", parameters)
	}
	return silence
}
