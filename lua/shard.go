package lua

import (
	"slices"
	"strings"

	"github.com/belayq/belay/driver"
)

var shardScript = load("shard")

// A Shard says which of several keyspaces one is.
type Shard struct {
	// Name is its name, and Bound has the names of the keyspaces among which jobs with a bound key are placed.
	Name  string
	Bound []string
}

// RecordShard records which shard the keyspace is, unless that is recorded, and returns what is recorded.
func (k Keys) RecordShard(s Shard) Ask[Shard] {
	return asking(shardScript, []string{k.Shard()}, []string{s.Name, s.bound()}, readShard)
}

// ReadShard returns which shard the keyspace is; the zero Shard if none is recorded.
func (k Keys) ReadShard() Ask[Shard] {
	return Ask[Shard]{Call: driver.Command("HMGET", k.Shard(), "name", "bound"), read: readShard}
}

// BindShard records which shard the keyspace is, whatever was recorded.
func (k Keys) BindShard(s Shard) driver.Call {
	return driver.Command("HSET", k.Shard(), "name", s.Name, "bound", s.bound())
}

func (s Shard) bound() string { return strings.Join(slices.Sorted(slices.Values(s.Bound)), " ") }

func readShard(r reader) (Shard, error) {
	s := Shard{Name: r.textOrNil(), Bound: strings.Fields(r.textOrNil())}
	return s, r.end()
}
