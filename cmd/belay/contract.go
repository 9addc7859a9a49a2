package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

// A contract is what scripts rely on of a command: the fields of its JSON and its exit statuses. The help is
// rendered from it, and tests compare it with what the command prints.
type contract struct {
	// commands are patterns of the commands that have it, without "belay".
	commands []string
	// json says what --json prints; empty for a command without that flag.
	json string
	// fields are the names of the JSON's fields, as the help shows them: a name, for nested objects with
	// {names}, for arrays with [what they have], for maps with {what: of what}.
	fields string
	// as names the command whose help shows these fields; empty if this one does.
	as string
	// notes explains fields.
	notes string
	// exits says when the command ends with which status. exitUsage means the same for every command, and is
	// not listed unless it has a further meaning.
	exits map[int]string
}

const (
	unread      = "if Redis cannot be read"
	unreachable = "if Redis cannot be reached"
	wrongLine   = "for a wrong command line"
	onSignal    = "if INT or TERM ended it"
	perLine     = "one JSON object a line"
	single      = "one JSON object"
)

// The fields that several commands print.
const (
	entryFields = `id, in, class, queue, gate, at, args, attempt, max_attempts, retry_count, interrupted_count, error_class, error_message,
errors [{attempt, at, class, message}], created_at, enqueued_at, failed_at (first), retried_at (last), bytes, problem, payload,
tracked {` + trackedFields + `},
details {tags [text], meta {name: text}, retry, timeout_seconds, start_by, deadline, lock, periodic, batch, callback_of,
next [{jid, class, queue, after}], after, payload}`
	trackedFields = `jid, state, done, total, result, no_result, ended_at, began_at, error_class, error_message`
	queueFields   = `name, size, latency_seconds, paused, quarantined, quarantined_seconds, waiting, held_by_dead, no_consumer,
runs_per_second, failed_per_second`
	runFields  = `tick_at, at, outcome, ended_at, jid`
	lockFields = `digest, jid, class, started, dirty, kept, taken_at, age_seconds, ttl_seconds, dedup_wal_locations {connection: position}`
	actFields  = `moved, gone, refused, problems [text], missing [id], locked {gem: jobs}`

	detailNotes = `In details, retry is a number, "default" (the worker's limit) or "never", lock is the digest of a
unique job, periodic the name of a periodic job, batch the id of the batch of which the job is a member, callback_of of
the batch whose callback it is, next the jobs that follow when it is done, after the jid of the job that a job follows,
and payload the whole job, as far as it may be shown.`
	argNotes = `args is an array. An encrypted argument is the text "[encrypted, key ID]" in it, or "[encrypted]" if Belay does not
know its key; the args of a class of --mask are ["[masked]"].`

	batchFields = `bid, state, description, total, pending, failed, dead, removed, nested, created_at, complete_at, success_at,
death_at, invalid_at, queue, parent, age_seconds, failed_jids [jid], dead_jids [jid]`
	batchNotes = `state is open, running, complete, dead or over. failed is a part of pending, and dead of failed.
nested are nested batches that are not over. The times are absent until they come; parent is the batch in which it is
nested. Only belay batches show lists jids.`

	limitFields = `name, concurrency, rate, source, seen_at, running, admitted, waiting, gates, oldest_seconds`
	limitNotes  = `concurrency is absent for any number, and rate, too. source is code, operator, reset (the next
program to register it replaces it), or absent if no size is stored.`

	processFields = `identity, state, belay, hostname, pid, tag, labels [text], version, queues [name], concurrency,
             capsules [{name, concurrency, mode, queues [name], weights {queue: weight}}], busy, quiet, rss_kb, started_at,
             beat_age_seconds, running [{thread, class, jid, queue, since, elapsed_seconds, overdue_seconds}]`
)

// statusFields are the fields of an overview.
var statusFields = `at, processed, failed, duplicates, enqueued, quarantined, held_by_dead, waiting, scheduled, retries, dead, batches, queue_count,
process_count, problems [text]
queues     [{` + strings.ReplaceAll(queueFields, "\n", "\n             ") + `}]
processes  [{` + processFields + `}]`

// contracts has the contracts of all commands. The first that matches a command is its own.
var contracts = []contract{
	{
		commands: []string{"status"}, json: single,
		fields: statusFields + `
shards     [{name, problem, ` + statusFields + `}]`,
		notes: `duplicates are pushes that were refused because another job held their lock. quarantined are jobs whose
workers died too often while they ran, so they run alone. held_by_dead are jobs of workers whose
heartbeats have stopped; a living worker recovers them. waiting are jobs that wait for limits, at up to 1,000
gates; those of a gate count for the queue of the next of them. state is that of a process: alive, lapsed (its
heartbeats have stopped) or gone. At most 1,000 queues, processes and running jobs are listed, of queues
those with the most jobs. The counts are of all, but enqueued and quarantined of some 20,000 queues at most:
problems then says so. problems are keys with unexpected contents. With shards, the counts are their sums, and
shards has the same of each, or the problem of one that is away. With --history it prints {date,
processed, failed} instead, one object a line.`,
		exits: map[int]string{exitOK: ", also with problems", exitFailure: "if nothing can be read from Redis"},
	},
	{commands: []string{"status reset"}, exits: map[int]string{exitOK: "", exitFailure: unreachable}},
	{
		commands: []string{"top"},
		exits:    map[int]string{exitOK: "", exitFailure: "if the terminal cannot be used, or Redis denies access at the start", exitUsage: wrongLine + ", or if there is no terminal"},
	},
	{
		commands: []string{"find"}, json: "one JSON object, or for a search one JSON object a line",
		fields: `jid, state, queue, class, gate, line, held, since, at, process, process_state, reported, looked, unseen, shard,
tracked {` + trackedFields + `},
job {` + strings.ReplaceAll(entryFields, "\n", "\n     ") + `}`,
		notes: `state is queue, quarantined, waiting, running, scheduled, retry, dead, completed or not_found; that of tracked is
running, retrying, waiting, done, dead, discarded, cancelled or expired. A job that waits for a limit has the
gate, and line, its place there: 1 is the next to start. held is why a waiting job is not started: class_paused,
queue_paused or no_consumer. at is when the job runs;
process_state is alive or lapsed; reported is true if the process reports that it runs the job; looked
is the number of entries that were read; shard is that of the job, if there are several; unseen lists the places that were not searched to the end; job
has the fields of belay dead --json. ` + detailNotes + " " + argNotes,
		exits: map[int]string{
			exitOK: "if a job was found, or a search was complete", exitFailure: "if it does not exist, or Redis cannot be read",
			exitUnseen: "if the search was incomplete and found nothing",
		},
	},
	{
		commands: []string{"cancel"}, json: perLine + ", one for each job", fields: `jid, result, state, class, queue, process, unseen, shard`,
		notes: `state is where the job was, and shard its shard, as in belay find; process is the process that has the job; unseen says why
the search was incomplete.`,
		exits: map[int]string{
			exitOK: "if each job was removed or is stopping", exitFailure: unreachable,
			exitAbsent: "if a job was not found, cannot be stopped, or had ended",
			exitUnseen: "if one was not found and the search was incomplete",
		},
	},
	{
		commands: []string{"dead", "retries", "scheduled", "queues list", "list"}, json: perLine, fields: entryFields,
		notes: `id is the jid, which the commands below accept; the id of an unreadable entry begins with "unreadable-".
in is retries, scheduled, dead, queue, quarantined, waiting or completed. gate is where a waiting job waits. at is when the job runs, or when it died or ended.
tracked is there for completed jobs, and began_at is when the run began that ended the job. attempt is how
many runs have failed, and max_attempts how many may: its retries and one. If the job does not set them, those of
the worker whose run failed last count, and before that the default of 25; it is absent if time limits the retries. retry_count is one less than attempt. errors are those
of the last failed runs, if the class keeps them (KeepErrors). Only an unreadable entry has problem, and payload:
its first bytes. Only belay find JID and the find below have details. With --group it prints one object instead:
{groups [{class, error_class, jobs, first, last}], jobs, others, looked, unseen [text]}. ` + argNotes,
		exits: map[int]string{exitOK: "", exitFailure: unread},
	},
	{
		commands: []string{"dead find", "retries find", "scheduled find", "queues find"}, json: perLine, fields: entryFields, as: "the list",
		notes: detailNotes + " " + argNotes,
		exits: map[int]string{exitOK: "", exitFailure: unread, exitAbsent: "if a job was not found"},
	},
	{
		commands: []string{"move", "dead *", "retries *", "scheduled *", "queues retry", "queues kill", "queues delete", "queues move", "queues clear"},
		json:     single, fields: actFields,
		notes: `gone are jobs that others took first; problems are reasons of refused ones; missing are jobs that were
named and are not there; locked counts jobs that a Ruby gem has locked. With --dry-run it prints what
belay list --group does.`,
		exits: map[int]string{
			exitOK: "if it was done, also if nothing matched --class, --unreadable or --all", exitFailure: unreachable + " or some jobs could not be changed",
			exitAbsent: "if a job that you named is not there, or not any more", exitSignal: onSignal,
		},
	},
	{
		commands: []string{"return"}, json: single, fields: `recovered, dead, quarantined, waiting`,
		exits: map[int]string{
			exitOK: "", exitFailure: "if a worker of Belay is alive, if Redis cannot be reached, or if jobs of dead processes are left after --timeout",
			exitSignal: onSignal,
		},
	},
	{
		commands: []string{"queues"}, json: perLine, fields: queueFields,
		notes: `At most 1,000 queues are listed. The two rates are of runs of Belay's workers, on average over the
current minute and the one before it.`,
		exits: map[int]string{exitOK: "", exitFailure: "if Redis, or a queue that standard error names, cannot be read"},
	},
	{
		commands: []string{"queues history"}, json: perLine + ", one for each minute", fields: `at, processed, failed, queues [{name, size, latency_seconds}]`,
		notes: "processed and failed are those of belay status at that time.",
		exits: map[int]string{exitOK: "", exitFailure: unread},
	},
	{
		commands: []string{"queues pause", "queues resume"},
		exits:    map[int]string{exitOK: ", also if a queue was in that state already", exitFailure: unreachable, exitSignal: onSignal},
	},
	{
		commands: []string{"processes"}, json: perLine, fields: processFields, as: `"processes" in belay status --json`,
		notes: "At most 1,000 processes are listed.",
		exits: map[int]string{exitOK: "", exitFailure: "if Redis, or a process that standard error names, cannot be read"},
	},
	{
		commands: []string{"processes *"},
		exits:    map[int]string{exitOK: "if it was sent", exitFailure: unreachable, exitAbsent: "if there is no such process"},
	},
	{
		commands: []string{"locks"}, json: perLine, fields: lockFields,
		notes: `taken_at is by Redis' clock. dedup_wal_locations is there if refused duplicates left positions of
write-ahead logs.`,
		exits: map[int]string{exitOK: "", exitFailure: unread},
	},
	{
		commands: []string{"locks release"},
		exits:    map[int]string{exitOK: "if all were released", exitFailure: unreachable, exitAbsent: "if one was not held", exitSignal: onSignal},
	},
	{
		commands: []string{"locks find"}, json: single, fields: lockFields, as: "belay locks --json",
		exits: map[int]string{exitOK: "if the lock is held", exitFailure: unread, exitAbsent: "if it is free"},
	},
	{
		commands: []string{"batches"}, json: perLine, fields: batchFields, notes: batchNotes,
		exits: map[int]string{exitOK: "", exitFailure: unread},
	},
	{
		commands: []string{"batches show"}, json: single, fields: batchFields, as: "belay batches --json",
		notes: "It lists at most 100 failed_jids and dead_jids.",
		exits: map[int]string{exitOK: "", exitFailure: unread, exitAbsent: "if there is no such batch"},
	},
	{
		commands: []string{"batches check"}, json: single, fields: `bid, looked, lost [jid], lost_count, removed, unseen [text]`,
		notes: `lost has at most 1,000 jids, and lost_count counts all. unseen says why the search was incomplete; members that
it concerns are not in lost.`,
		exits: map[int]string{
			exitOK: "", exitFailure: unreachable, exitAbsent: "if there is no such batch", exitUnseen: "if the search was incomplete",
		},
	},
	{
		commands: []string{"batches new"},
		exits:    map[int]string{exitOK: ", also if the batch is opened again", exitFailure: "if it was not made, or may not have been"},
	},
	{
		commands: []string{"batches *"},
		exits:    map[int]string{exitOK: "", exitFailure: unreachable, exitAbsent: "if one is not there", exitSignal: onSignal},
	},
	{
		commands: []string{"limits"}, json: perLine, fields: limitFields, notes: limitNotes + " At most 1,000 limits are listed.",
		exits: map[int]string{exitOK: "", exitFailure: unread},
	},
	{
		commands: []string{"limits show"}, json: single,
		fields: strings.Replace(limitFields, "gates,", `gates [{gate, limit, key, running, admitted, waiting, oldest_seconds, queue, stopped_seconds}],`, 1) + `,
holders [{gate, lease, jid, class, process, process_state, since}],
waiters [{` + entryFields + `}], problems [text]`,
		notes: limitNotes + ` gates are those with jobs, and holders the runs that have a slot, at most 1,000 of each; one
with a lease is a caller of belay.Do instead; waiters are the next jobs at the gate of --key, in the fields of belay list. ` + detailNotes + " " + argNotes,
		exits: map[int]string{exitOK: "", exitFailure: unread, exitAbsent: "if there is no such limit"},
	},
	{
		commands: []string{"limits check"}, json: single,
		fields: `looked, wrong [{gate, running, slots, admitted, admissions, waiting, indexed}], problems [text]`,
		notes: `running and admitted are the counts, slots and admissions what there is (callers of belay.Do have slots, too); indexed says whether workers look at
the gate, which they do if jobs wait there.`,
		exits: map[int]string{exitOK: "if all counts are right", exitFailure: "if one is wrong, or " + strings.TrimPrefix(unread, "if ")},
	},
	{
		commands: []string{"limits set"},
		exits:    map[int]string{exitOK: "", exitFailure: unreachable, exitSignal: onSignal},
	},
	{
		commands: []string{"limits *"},
		exits:    map[int]string{exitOK: "", exitFailure: unreachable, exitAbsent: "if there is no such limit", exitSignal: onSignal},
	},
	{
		commands: []string{"classes"}, json: single,
		fields: `at, from, step_seconds, class_count, problems [text]
classes  [{class, runs, failed, time_seconds, mean_seconds,
           run {count, p50_seconds, p95_seconds, p99_seconds, buckets [number]},
           wait {count, p50_seconds, p95_seconds, p99_seconds, buckets [number]},
           steps [{runs, failed, time_seconds}]}]`,
		notes: `mean_seconds is null without a successful run. run and wait may be null. A percentile of at most 0.02
is in the first bucket: it says no more than that.`,
		exits: map[int]string{exitOK: "", exitFailure: unread},
	},
	{
		commands: []string{"classes list"}, json: perLine, fields: `class, rule, concurrency, running, admitted, waiting, oldest_seconds`,
		notes: "rule is pause, limit or drop, and concurrency is there for limit.",
		exits: map[int]string{exitOK: "", exitFailure: unread},
	},
	{
		commands: []string{"classes resume"},
		exits:    map[int]string{exitOK: "", exitFailure: unreachable, exitAbsent: "if a class has no rule", exitSignal: onSignal},
	},
	{
		commands: []string{"classes *"},
		exits:    map[int]string{exitOK: ", also if a class had that rule already", exitFailure: unreachable + ", or 1,000 classes have rules", exitSignal: onSignal},
	},
	{
		commands: []string{"periodic", "periodic list"}, json: perLine,
		fields: `name, cron, zone, catch_up, overlap, jitter_seconds, class, queue, args, process, paused, last_at, next_at,
last_run {` + runFields + `}, problem`,
		notes: `process is "" for an operator's. last_at and next_at are null for none, and so is last_run, which is as
in belay periodic history. problem is there if this version cannot use the definition. ` + argNotes,
		exits: map[int]string{exitOK: "", exitFailure: unread},
	},
	{commands: []string{"periodic add"}, exits: map[int]string{exitOK: " (also if nothing had to change)", exitFailure: unreachable}},
	{
		commands: []string{"periodic run"}, json: single, fields: runFields, as: "belay periodic history --json",
		exits: map[int]string{
			exitOK: "", exitFailure: unreachable,
			exitDuplicate: "if it was refused, because the job of an earlier tick waits or runs (the printed jid is that one's)",
			exitAbsent:    "if there is none of this name",
		},
	},
	{
		commands: []string{"periodic history"}, json: perLine, fields: runFields,
		notes: `tick_at is null for belay periodic run, and ended_at before the end.`,
		exits: map[int]string{exitOK: "", exitFailure: unread, exitAbsent: "if there is none of this name"},
	},
	{
		commands: []string{"periodic *"},
		exits: map[int]string{
			exitOK: " (also if nothing had to change)", exitFailure: unreachable + ", or the action is impossible", exitAbsent: "if one is not there",
			exitSignal: onSignal,
		},
	},
	{
		commands: []string{"check"}, json: single, fields: `worst, findings [{name, severity, found, advice}]`,
		notes: "worst is the worst severity among the findings. With --acl it prints {role, user, rule} instead.",
		exits: map[int]string{exitOK: "if nothing is bad", exitFailure: "with a bad finding, or if no Redis answers"},
	},
	{
		commands: []string{"shards", "shards list", "shards check"}, json: perLine,
		fields: `name, prefix, bound_shards [name], problem, left {queued, running, waiting, scheduled, retries, dead, locks, gates, batches}`,
		notes: `bound_shards is what the keyspace has recorded: empty if no program has used it as a shard. problem says why it
cannot be read, or in what its record differs from the URL; then left may be incomplete. gates are those of limits
with jobs, and batches those that are not over.`,
		exits: map[int]string{
			exitOK:      "",
			exitFailure: "if a shard has a problem; belay shards check also if a shard that you named is not empty, or with --bound if bound keys are left",
		},
	},
	{
		commands: []string{"shards plan"}, json: perLine, fields: `name, prefix, slot, primary`,
		notes: "primary counts the primaries of a Cluster from 1, if they share the slots equally.",
		exits: map[int]string{exitOK: ""},
	},
	{
		commands: []string{"shards bind"},
		exits:    map[int]string{exitOK: "", exitFailure: "if a shard is away or has bound keys, or the record of one could not be changed"},
	},
	{commands: []string{"version"}, json: single, fields: "version, go, platform", exits: map[int]string{exitOK: ""}},
	{
		commands: []string{"push"}, json: "a receipt instead of a jid, " + perLine, fields: `jid, queue, shard, status, holder, replicas, reason, line`,
		notes: `status is queued, scheduled, duplicate (holder is the jid of the job that holds the lock), unknown (no
reply within --repeat-for: Redis may or may not have the job) or not_pushed. With --file there is also line.
With --replicas, replicas is how many replicas have the job: absent for none, and -1 if Redis did not say. shard
is where the job is, if the URL has shards.`,
		exits: map[int]string{
			exitOK: "if all jobs were enqueued", exitFailure: "if a job was not, or may not have been",
			exitDuplicate: "if there was no error and a duplicate was refused",
			exitReplicas:  "if jobs were enqueued, but fewer replicas than --replicas have the last of them",
			exitSignal:    "if INT or TERM ended the reading of a file",
		},
	},
	{commands: []string{"work"}, exits: map[int]string{exitOK: "after a stop", exitFailure: "if it could not work, or Redis denies access at the start"}},
	{commands: []string{"web"}, exits: map[int]string{exitOK: "after INT or TERM", exitFailure: "if the address cannot be opened, or Redis denies access at the start"}},
	{
		commands: []string{"demo"}, json: "exactly one JSON object on standard output, and all other text on standard error",
		fields: `enqueued, done, reruns, kills, interrupted, unfinished, lost, workers, seconds, redis`,
		notes: `reruns counts the runs after the first of a job, interrupted the jobs that were running in killed
workers, unfinished the jobs that were still in Redis when the time was up, lost the jobs that are
neither done nor in Redis. With default settings it takes 20 s at most.`,
		exits: map[int]string{exitOK: "if every job was done", exitFailure: "if a job was not done, or if the demonstration failed"},
	},
}

// contractOf returns the contract of a command; ok is false if it has none.
func contractOf(cmd *cobra.Command) (c contract, ok bool) {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	for _, c := range contracts {
		for _, pattern := range c.commands {
			if matched, _ := path.Match(pattern, name); matched {
				return c, true
			}
		}
	}
	return c, false
}

// describe adds its contract to the help of each command and of its --json.
func describe(cmd *cobra.Command) {
	if c, ok := contractOf(cmd); ok {
		cmd.Long += c.help()
		if flag := cmd.Flags().Lookup("json"); flag != nil {
			flag.Usage = "print " + c.json
		}
	}
	for _, sub := range cmd.Commands() {
		describe(sub)
	}
}

func (c contract) help() string {
	text := ""
	switch {
	case c.json == "":
	case c.as != "":
		text = "\n\n" + wrapped(strings.TrimSpace(fmt.Sprintf("With --json it prints %s, with the fields of %s. %s", c.json, c.as, c.notes)))
	default:
		text = fmt.Sprintf("\n\nWith --json it prints %s, with these stable fields:\n  %s%s",
			c.json, strings.ReplaceAll(c.fields, "\n", "\n  "), word(c.notes != "", "\n"+wrapped(c.notes)))
	}
	return text + "\n\n" + wrapped(c.exitHelp()+".")
}

// wrapped breaks a paragraph into the lines of a help.
func wrapped(text string) string {
	return ansi.Wordwrap(strings.ReplaceAll(text, "\n", " "), helpColumns, "")
}

// helpColumns is the width of the lines of helps.
const helpColumns = 110

// exitHelp lists the exit statuses.
func (c contract) exitHelp() string {
	exits := maps.Clone(c.exits)
	if exits[exitUsage] == "" {
		exits[exitUsage] = wrongLine
	}
	var lines []string
	for _, status := range slices.Sorted(maps.Keys(exits)) {
		name, when := fmt.Sprint(status), exits[status]
		if status == exitSignal {
			name = "130 or 143" // by INT or TERM
		}
		if when != "" && when[0] != ',' && when[0] != ' ' {
			name += " "
		}
		lines = append(lines, name+when)
	}
	return "Exit status: " + strings.Join(lines, "; ")
}
