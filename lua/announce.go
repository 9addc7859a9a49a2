package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var announceScript = load("announce")

// announceTTL is how long Sidekiq's readers keep a process that has gone silent; Sidekiq's own value.
const announceTTL = 60 * time.Second

// Announce writes identity's entry among Sidekiq's processes. fields are names and values of its hash in turn, work
// thread ids and work entries in turn. It answers false, and writes nothing, for an identity that is dead.
func (k Keys) Announce(identity string, fields, work []string) Ask[bool] {
	args := make([]string, 0, 3+len(fields)+len(work))
	args = append(args, identity, strconv.Itoa(int(announceTTL/time.Second)), strconv.Itoa(len(fields)/2))
	args = append(append(args, fields...), work...)
	return Ask[bool]{
		Call: driver.Call{
			Script: announceScript,
			Keys:   []string{k.Processes(), k.Process(identity), k.Work(identity), k.Workers(identity), k.Tombstones()},
			Args:   args,
		},
		read: wordIs("announced"),
	}
}

// wordIs reads a status word and says whether it is this one.
func wordIs(want string) func(any) (bool, error) {
	return func(value any) (bool, error) {
		word, err := wordOf(value)
		return word == want, err
	}
}
