package lua

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var recoverGitlabScript = load("recover_gitlab")

// A GitLabList is a working list of GitLab's reliable fetch for Sidekiq: the jobs of one queue that one Ruby
// process has taken. It is the only key whose name Belay parses, because GitLab keeps no index of them.
//
// A name can mean more than one process, because queues and hosts may contain colons: "a:1:2" may be the
// process "a:1:2", or "1:2" with the queue "a". So a list counts as a dead process' only if no process that
// its name can mean has a heartbeat.
type GitLabList struct {
	Key string
	// Queue is the queue that GitLab's own cleaner would read from the name, and Process the process.
	Queue, Process string

	queues     []string // all queues that the name can mean
	heartbeats []string // their processes' keys, in the same order
}

const (
	gitlabWorking   = "working:queue:"
	gitlabHeartbeat = "reliable-fetcher-heartbeat-"
	// gitlabReadings bounds the meanings of one name: each one is one more key of a script.
	gitlabReadings = 16
)

var (
	// gitlabNonce and gitlabLegacy are the patterns with which GitLab's cleaner reads a name. gitlabLegacy is
	// for versions whose processes had no nonce, and is used only if gitlabNonce does not match.
	gitlabNonce  = regexp.MustCompile(`(?s)^(.*):([^:]*:[0-9]*:[0-9a-f]*)$`)
	gitlabLegacy = regexp.MustCompile(`(?s)^(.*):([^:]*:[0-9]*)$`)
	// gitlabProcess is any process: a host with colons too, which the cleaner misreads.
	gitlabProcess = regexp.MustCompile(`(?s)^.*:[0-9]*(?::[0-9a-f]*)?$`)
)

// GitLabPattern is the glob of the names of GitLab's working lists.
func (k Keys) GitLabPattern() string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(k.prefix) + gitlabWorking + "*"
}

// GitLabName is the name of the working list of a queue's jobs that a Ruby process has taken.
func (k Keys) GitLabName(queue, process string) string {
	return k.prefix + gitlabWorking + queue + ":" + process
}

// GitLabHeartbeat is the string that expires a minute after the last heartbeat of a Ruby process.
func (k Keys) GitLabHeartbeat(process string) string {
	return k.prefix + gitlabHeartbeat + strings.ReplaceAll(process, ":", "-")
}

// GitLabInterrupted is GitLab's sorted set of jobs that were interrupted too often.
func (k Keys) GitLabInterrupted() string { return k.prefix + "interrupted" }

// GitLabList reads the name of a working list of GitLab's reliable fetch. It returns false for any other name.
func (k Keys) GitLabList(key string) (GitLabList, bool) {
	list := GitLabList{Key: key}
	name, ok := strings.CutPrefix(key, k.prefix+gitlabWorking)
	if !ok {
		return list, false
	}
	usual := gitlabNonce.FindStringSubmatch(name)
	if usual == nil {
		usual = gitlabLegacy.FindStringSubmatch(name)
	}
	if usual == nil {
		return list, false
	}
	list.Queue, list.Process = usual[1], usual[2]
	for at := range len(name) {
		if name[at] != ':' || !gitlabProcess.MatchString(name[at+1:]) {
			continue
		}
		list.queues = append(list.queues, name[:at])
		list.heartbeats = append(list.heartbeats, k.GitLabHeartbeat(name[at+1:]))
	}
	return list, len(list.queues) <= gitlabReadings
}

// Heartbeats are the keys of which one exists while the list's process is alive.
func (l GitLabList) Heartbeats() []string { return l.heartbeats }

// QueueOf returns the queue of a job in this list. It is said, the queue that the job's payload names, if the
// name of the list can mean that queue; otherwise it is Queue.
func (l GitLabList) QueueOf(said string) string {
	if slices.Contains(l.queues, said) {
		return said
	}
	return l.Queue
}

// RecoverGitLab moves these jobs of a list's dead process to the head of their queue, or to the dead set,
// unless a heartbeat of the process exists. Without entries it only reports whether one exists. Each entry that
// it moves to the dead set counts as a failed run on the UTC day of today, by Redis' clock. The caller keeps
// within MaxItems and MaxBytes.
func (k Keys) RecoverGitLab(list GitLabList, orphans Orphans, today time.Time) Ask[Recovered] {
	keys := append([]string{
		list.Key, k.Queue(orphans.Queue), k.Queues(), k.Dead(), k.Unique(), k.Processed(), k.Failed(), k.ProcessedOn(today), k.FailedOn(today),
	}, list.heartbeats...)
	args := append([]string{orphans.Queue, daySeconds, strconv.Itoa(len(list.heartbeats))}, k.deadLimits()...)
	keys, args = k.appendOrphans(keys, args, 1, orphans)
	return asking(recoverGitlabScript, keys, args, readRecovered)
}
