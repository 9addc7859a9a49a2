package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// An Inspector reads one keyspace and moves jobs in it on an operator's request. Its methods are safe for
// concurrent use.
type Inspector struct {
	client *client.Client // for Wait
	driver driver.Client
	link   *link.Link // the driver, for calls that carry jobs
	keys   lua.Keys
	unit   job.TimeUnit // of the jobs that it makes
	// orderly is the constant orderly; tests have shorter queues.
	orderly int
	mask    Mask
}

// New returns an Inspector of a client's keyspace: of its Redis, under its prefix. It sends nothing, and uses
// the client's connections. It panics when the client is nil, and when it has several shards: FleetOf is for
// these.
func New(c *client.Client) *Inspector {
	shards := FleetOf(c).shards
	if len(shards) > 1 {
		panic("inspect: New: the client has several shards; use FleetOf")
	}
	return shards[0].Inspector
}

// WithDriver returns an Inspector of the same keyspace that uses other connections to the same Redis, such as a
// Lane of the client's driver.
func (i *Inspector) WithDriver(d driver.Client) *Inspector {
	other := *i
	other.driver = d
	other.link = &link.Link{Client: d, Round: driver.CallTimeout, Patient: true, Largest: job.MaxPayloadLimit}
	return &other
}

// The limits of the dead set of an Inspector without others: those of a server.
const (
	DefaultDeadLimit = lua.DefaultDeadLimit
	DefaultDeadFor   = lua.DefaultDeadFor
)

// WithDeadLimits returns an Inspector with the limits of the dead set that the workers have
// (ServerConfig.DeadLimit and DeadFor). It trims the set to them, the oldest jobs first, whenever it adds to
// it.
// They are stored nowhere in Redis. So an Inspector without them has DefaultDeadLimit and DefaultDeadFor, and
// removes dead jobs if the workers keep more. A zero is the default.
func (i *Inspector) WithDeadLimits(limit int, keep time.Duration) *Inspector {
	limited := *i
	limited.keys = i.keys.WithDeadLimits(lua.DeadLimits{Limit: limit, For: keep})
	return &limited
}

// page reads entries of a list or a sorted set, as many as the link carries well and at most most. Fewer than
// that do not mean that there are no more.
func (i *Inspector) page(ctx context.Context, key string, order lua.Order, skip, most int) (lua.Page, error) {
	room := i.link.Page()
	ask := i.keys.Page(key, order, skip, most, room)
	return ask.Read(i.link.Carry(ctx, room, ask.Call)[0])
}

// pageAfter reads the entries of a sorted set after a cursor, as many as the link carries well. With jids
// it is a search for jobs with one of them.
func (i *Inspector) pageAfter(ctx context.Context, key string, cursor lua.Cursor, jids []string) ([]lua.Entry, error) {
	cursor.Room = i.link.Page()
	ask := i.keys.PageAfter(key, cursor)
	if jids != nil {
		ask = i.keys.SeekAfter(key, cursor, jids)
	}
	return ask.Read(i.link.Carry(ctx, cursor.Room, ask.Call)[0])
}

// seek searches the entries of a list for jobs with one of the jids, as many as the link would carry well.
func (i *Inspector) seek(ctx context.Context, key string, skip int, kept string, jids []string) (lua.Page, error) {
	room := i.link.Page()
	ask := i.keys.Seek(key, skip, kept, jids, room)
	return ask.Read(i.link.Carry(ctx, room, ask.Call)[0])
}

// Seconds is a duration that JSON holds as a number of seconds, with a fraction.
type Seconds struct{ time.Duration }

// MarshalJSON writes the duration as a number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(s.Seconds()) }

// UnmarshalJSON reads a number of seconds.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &seconds); err != nil {
		return fmt.Errorf("read seconds: %w", err)
	}
	s.Duration = time.Duration(seconds * float64(time.Second))
	return nil
}

// maxProblems bounds the problems that one Status or ActCounts lists: more than these usually have one cause.
const maxProblems = 20

// A reading collects the replies of one request. An error reply about a single key becomes a problem; any
// other failure means that Redis cannot be read, and is the error of the whole request.
type reading struct {
	problems []string
	refused  []error // the problems that are error replies; at most as many
	err      error
}

// ok reports whether all was read so far.
func (r *reading) ok() bool { return r.err == nil && len(r.refused) == 0 }

func (r *reading) value(what string, reply driver.Reply) any {
	switch {
	case reply.Err == nil:
		return reply.Value
	case driver.Outage(reply.Err):
		if r.err == nil {
			r.err = fmt.Errorf("read %s: %w", what, reply.Err)
		}
	default:
		if r.problem("%s: %v", what, reply.Err) {
			r.refused = append(r.refused, fmt.Errorf("%s: %w", what, reply.Err))
		}
	}
	return nil
}

// problem adds a problem unless it is listed already or the list is full, and reports whether it added it.
func (r *reading) problem(format string, args ...any) bool {
	text := fmt.Sprintf(format, args...)
	if len(r.problems) == maxProblems || slices.Contains(r.problems, text) {
		return false
	}
	r.problems = append(r.problems, text)
	return true
}

// number reads an integer, or a string that holds one; without either it is 0.
func (r *reading) number(what string, reply driver.Reply) int64 {
	switch v := r.value(what, reply).(type) {
	case int64:
		return v
	case string:
		return r.count(what, v)
	}
	return 0
}

// count reads the text of an integer; an empty text is 0.
func (r *reading) count(what, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && text != "" {
		r.problem("%s: %.40q is not a number", what, text)
	}
	return n
}

// texts reads an array of strings; a nil element becomes an empty string.
func (r *reading) texts(what string, reply driver.Reply) []string {
	parts, _ := r.value(what, reply).([]any)
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i], _ = part.(string)
	}
	return texts
}

// names reads the names of what will be listed. Any program that can write to Redis can write one of many
// megabytes, and each list and page would have it several times: one of more than maxName bytes, which no push
// writes, is a problem instead.
func (r *reading) names(what string, reply driver.Reply) []string {
	return r.listable(what, r.texts(what, reply))
}

// listable leaves out the names that are too long.
func (r *reading) listable(what string, all []string) []string {
	short := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return len(name) > maxName })
	if long := len(all) - len(short); long > 0 {
		r.problem("%s: names of more than %d bytes are not listed; there are %d", what, maxName, long)
	}
	return short
}

// time reads the reply to lua.AskTime. If TIME is denied, it returns this machine's time.
func (r *reading) time(reply driver.Reply) time.Time {
	if now, err := lua.TimeOf(reply); err == nil {
		return now.UTC()
	}
	r.value("the time", reply)
	return time.Now().UTC()
}

// Now returns Redis' time, which decides when jobs are due.
func (i *Inspector) Now(ctx context.Context) (time.Time, error) {
	var r reading
	now := r.time(i.driver.Do(ctx, lua.AskTime)[0])
	return now, r.err
}

func (i *Inspector) do(ctx context.Context, calls []driver.Call) []driver.Reply {
	if len(calls) == 0 {
		return nil
	}
	return i.driver.Do(ctx, calls...)
}
