package gitlab

import (
	"regexp"
	"slices"
	"strings"

	"github.com/belayq/belay/lua"
)

// A list is a working list of GitLab's reliable fetch for Sidekiq: the jobs of one queue that one Ruby
// process has taken. Its name must be parsed, because GitLab keeps no index of these lists.
//
// A name can mean more than one process, because queues and hosts may contain colons: "a:1:2" may be the
// process "a:1:2", or "1:2" with the queue "a". So a list counts as a dead process' only if no process that
// its name can mean has a heartbeat.
type list struct {
	key string
	// queue is the queue that GitLab's own cleaner would read from the name, and process the process.
	queue, process string
	// queues are all queues that the name can mean, and heartbeats the heartbeat keys of the processes that it
	// can mean, in the same order. One of these keys exists while the list's process is alive.
	queues, heartbeats []string
}

const (
	workingPrefix   = "working:queue:"
	heartbeatPrefix = "reliable-fetcher-heartbeat-"
	// maxReadings bounds the meanings of one name: each adds a key to a call of the script.
	maxReadings = 16
)

var (
	// withNonce and withoutNonce are the patterns with which GitLab's cleaner reads a name. withoutNonce is for
	// versions whose processes had no nonce, and is used only if withNonce does not match.
	withNonce    = regexp.MustCompile(`(?s)^(.*):([^:]*:[0-9]*:[0-9a-f]*)$`)
	withoutNonce = regexp.MustCompile(`(?s)^(.*):([^:]*:[0-9]*)$`)
	// anyProcess matches any process: one on a host with colons too, which the cleaner misreads.
	anyProcess = regexp.MustCompile(`(?s)^.*:[0-9]*(?::[0-9a-f]*)?$`)
)

// keys has the names of the keys of Belay and of GitLab's reliable fetch in one keyspace.
type keys struct {
	lua.Keys
	prefix string // with its colon
}

// newKeys returns the names with this prefix, for scripts that keep the dead set within these limits.
func newKeys(prefix string, dead lua.DeadLimits) keys {
	k := keys{Keys: lua.NewKeys(prefix).WithDeadLimits(dead)}
	if prefix != "" {
		k.prefix = prefix + ":"
	}
	return k
}

// pattern returns the glob that matches the names of working lists.
func (k keys) pattern() string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(k.prefix) + workingPrefix + "*"
}

// heartbeat returns the key that expires a minute after the last heartbeat of a Ruby process.
func (k keys) heartbeat(process string) string {
	return k.prefix + heartbeatPrefix + strings.ReplaceAll(process, ":", "-")
}

// interrupted returns the key of GitLab's sorted set of jobs that were interrupted too often.
func (k keys) interrupted() string { return k.prefix + "interrupted" }

// list reads the name of a working list. It returns false for any other name, and for one with too many
// meanings.
func (k keys) list(key string) (list, bool) {
	l := list{key: key}
	name, ok := strings.CutPrefix(key, k.prefix+workingPrefix)
	if !ok {
		return l, false
	}
	usual := withNonce.FindStringSubmatch(name)
	if usual == nil {
		usual = withoutNonce.FindStringSubmatch(name)
	}
	if usual == nil {
		return l, false
	}
	l.queue, l.process = usual[1], usual[2]
	for at := range len(name) {
		if name[at] != ':' || !anyProcess.MatchString(name[at+1:]) {
			continue
		}
		l.queues = append(l.queues, name[:at])
		l.heartbeats = append(l.heartbeats, k.heartbeat(name[at+1:]))
	}
	return l, len(l.queues) <= maxReadings
}

// queueOf returns the queue of a job in this list: named, the queue in its payload, if the name of the list can
// mean that queue, otherwise the queue that GitLab's cleaner would read.
func (l list) queueOf(named string) string {
	if slices.Contains(l.queues, named) {
		return named
	}
	return l.queue
}
