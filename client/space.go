package client

import (
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// A space is what a client has of one keyspace: its Redis and keys, the pushes under way, and the estimate of
// its Redis' time.
type space struct {
	// name is that of the shard, and record what the keyspace has recorded about it; empty without shards.
	name   string
	record lua.Shard
	// admitted is set once the record was compared.
	admitted atomic.Bool

	driver driver.Client
	prefix string
	link   *link.Link // the driver, for calls that carry jobs
	keys   lua.Keys
	cfg    *Config // of the client
	scopes *scopes
	groups groups
	// refusals logs refused duplicates.
	refusals *refusals
	waits    waits
	durable  *durable

	clock lua.Clock
	born  time.Time
	// askAt is when to ask Redis for its time again, as a duration since born; 0 means that it was never asked.
	askAt atomic.Int64
	// currentUntil is until when all workers are assumed to be as new as this program, as a duration since
	// born.
	currentUntil atomic.Int64
	// outFor is for how long the shard was last left out of the turns, and outUntil until when, as a duration
	// since born; 0 for not at all. See leaveOut.
	outFor, outUntil atomic.Int64
}

func newSpace(d driver.Client, prefix string, cfg *Config, refusals *refusals) *space {
	carrier := &link.Link{Client: d, Round: driver.CallTimeout, Patient: true}
	keys := lua.NewKeys(prefix)
	return &space{
		driver: d, prefix: prefix, link: carrier, durable: newDurable(d, carrier), keys: keys, cfg: cfg,
		scopes: newScopes(keys), refusals: refusals, born: time.Now(),
	}
}

// pagesPushed is how many pages of a link one push carries. More than one, because no heartbeat of this
// connection waits behind it; four, because lua.MaxItems jobs of a kilobyte then go together from the start.
const pagesPushed = 4

// page returns how many bytes of payload one push should carry.
func (s *space) page() int { return min(pagesPushed*s.link.Page(), lua.MaxBytes) }

func (s *space) close() error {
	s.waits.close()
	_ = s.durable.lane.Close() // its pushes fail, as all do from now on
	s.forget()
	return s.driver.Close()
}
