package lua

import (
	"strconv"
	"time"
)

var announceScript = load("announce")

// announceTTL is how long Sidekiq's readers keep a process that has gone silent; Sidekiq's own value.
const announceTTL = 60 * time.Second

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
