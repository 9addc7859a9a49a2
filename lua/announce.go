package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var announceScript = load("announce")

// announceTTL is how long Sidekiq's readers keep a process that has gone silent; Sidekiq's own value.
const announceTTL = 60 * time.Second

// KeepAnnounced returns the calls, for a pipeline, that replace some fields of identity's entry in Sidekiq's
// list and keep it for as long as Announce does. They cost Redis far less than that script. The function that
// reads their replies reports whether this was enough: if not, because the entry was gone or a call was
// refused, Announce must follow. They need no transaction: the first one does not change when the entry
// expires, and an entry that it makes anew expires by the second one.
func (k Keys) KeepAnnounced(identity string, fields []string) ([]driver.Call, func([]driver.Reply) bool) {
	hash := k.Process(identity)
	calls := []driver.Call{
		driver.Command(append([]string{"HSET", hash}, fields...)...),
		driver.Command("EXPIRE", hash, wholeSeconds(announceTTL)),
	}
	return calls, func(replies []driver.Reply) bool {
		return replies[0].Value == int64(0) && replies[1].Value == int64(1) // no new field
	}
}

// Announce writes identity's entry in Sidekiq's list of processes. fields alternates names and values of its
// hash, work alternates thread ids and work entries. It returns false, and writes nothing, if the identity is
// dead.
func (k Keys) Announce(identity string, fields, work []string) Ask[bool] {
	args := make([]string, 0, 3+len(fields)+len(work))
	args = append(args, identity, wholeSeconds(announceTTL), strconv.Itoa(len(fields)/2))
	args = append(append(args, fields...), work...)
	return asking(announceScript, []string{k.Processes(), k.Process(identity), k.Work(identity), k.Workers(identity), k.Tombstones()},
		args, wordIs("announced"))
}
