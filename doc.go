// Package belay runs background jobs on Redis, in Sidekiq's wire format. Most programs import only this
// package: they define classes of jobs with [Define], push jobs with a [Client], and run them with a [Server].
// The packages below this one do the work.
//
// To belay is to hold a climber's rope: when a worker falls, Belay holds its jobs.
//
// # The first program
//
// This program pushes a job and runs it:
//
//	type WelcomeArgs struct{ UserID, TeamID int64 }
//
//	var Welcome = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.Retries(5), belay.NotIdempotent("duplicate emails are acceptable"))
//
//	func main() {
//		ctx := context.Background()
//		client, err := belay.Open(ctx, os.Getenv("REDIS_URL"), nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42, TeamID: 7})
//		fmt.Println(receipt.Status, err)
//
//		server, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("mail")})
//		if err != nil {
//			log.Fatal(err)
//		}
//		Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
//			fmt.Println("welcome, user", args.UserID)
//			server.Stop() // a real worker goes on until a signal stops it
//			return nil
//		})
//		fmt.Println(server.RunProcess(ctx, belay.ProcessConfig{}))
//	}
//
// A program that only enqueues needs no server, and one that only runs jobs calls no Enqueue. They share the
// definition.
//
// # From push to end
//
// A definition ([Define]) names a class of jobs and the type of its arguments. A process that runs a [Server]
// is a worker process. It has processors: goroutines that each run one job at a time. All worker processes of
// one Redis, and one key prefix, are the fleet.
//
// [Definition.Enqueue] writes the job's payload, one line of JSON as Ruby's Sidekiq would write it, and
// stores it at the end of its queue, the list queue:mail. The caller gets a receipt with the job's id, the
// jid. If Redis' reply is lost, Enqueue returns [ErrUnknown]; a [PushOnce] job is sent again, and Redis
// stores it once. With [In] or [At] the job first waits in the sorted set schedule. From here on the job is
// in exactly one place at every instant. A Lua script moves it to the next place, completely or not at all,
// and leaves its bytes as they are.
//
// When a processor is idle, the script take moves the job from the queue into the process' own working list.
// The job stays there while its handler runs, so no job is lost when its process dies.
//
// When the handler returns, the run has an outcome. The script settle removes the job from the working list,
// puts it where it goes next and moves the counters, in one step:
//
//	nil           removed: the job is done
//	an error      the retry set: the job runs again after a delay, 25 times by default
//	              the dead set, which operators read, if no retries are left
//	Discard       removed
//	Kill          the dead set
//	RetryIn       the retry set, with the delay that the handler chose
//	Snooze        the schedule; the run does not count as failed
//	RateLimited   first in the waiting list of its limit, which starts nothing for a while; without a limit
//	              as Snooze
//	Interrupted   the head of its queue, as if the job had not been taken, and at once
//	a stop        the head of its queue, if the handler has not returned in time
//
// The script promote moves jobs of the retry set and the schedule to their queues when they are due.
//
// A panic is an error, with its stack. A job without a handler fails too, and is retried: another process may
// have the handler.
//
// If settle does not find the job in the working list, the process was declared dead meanwhile and another
// process has the job. Then settle writes nothing.
//
// If the process dies, its heartbeats stop. Another process checks twice that they are missing while its own
// connection to Redis works, and then recovers the jobs. In one step, script recover declares the process
// dead and moves its jobs to the head of their queues. Redis refuses later heartbeats of the dead process. A
// crash costs no retry. A job that was running in two crashes is quarantined: a process runs it only while it
// runs no other job. If that process crashes too, the job is moved to the dead set.
//
// So every job runs at least once, as long as Redis keeps what it acknowledged. A job runs twice if its
// process dies after the work is done and before the result is settled. So handlers should be idempotent;
// [Idempotent] declares that they are.
//
// # Unique jobs
//
// A push of a [Unique] job stores nothing while an equal job holds their common lock:
//
//	var Reindex = belay.Define[ReindexArgs]("Reindex", belay.Idempotent(),
//		belay.Unique(belay.UntilExecuted, belay.UniqueOpts{Fields: []string{"ProductID"}}))
//
//	receipt, err := Reindex.Enqueue(ctx, client, ReindexArgs{ProductID: 42, AskedBy: "Ann"})
//	if receipt.Status == belay.StatusDuplicate { // and err is nil: nothing went wrong
//		fmt.Println("job", receipt.Holder, "will do it")
//	}
//
// The script that stores the job (push_unique) takes the lock in the same step. The payload names the lock
// for the scripts that follow:
//
//	UntilExecuting   script start releases it before the handler is called: a later push is a new job
//	UntilExecuted    every end of the job releases it, in the same step: done, discarded, dead, deleted by
//	                 belay; script renew renews it at each heartbeat while the job runs; a retry, a stop and
//	                 a crash keep it
//	UntilExpired     it stays for the TTL, whatever becomes of the job: one job is accepted in each period.
//	                 The payload does not name the lock, so no script but that of an operator releases it
//
// [Key] locks as UntilExpired does, by a key of the program's own instead of the class and the arguments. For
// events that a sender repeats, such as those of a webhook, it stores one job for each event:
//
//	receipt, err := Pay.Enqueue(ctx, client, args, belay.Key("stripe:"+event.ID, 72*time.Hour))
//
// With RescheduleOnce ([UniqueOpts]) the job runs once more if a duplicate was refused after the run began:
// when the job ends, settle stores it again as a new job, with the lock. So the last change is always seen by
// a run that began after it. The rule is stored in the job that holds the lock: the options of a refused
// duplicate are ignored.
//
// With MarkDuplicates no push is refused. Duplicates are stored without the lock and marked: duplicate-of
// in the payload is the jid of the job that holds the lock.
//
// [Idempotent] alone does not make a class unique. A client with DeduplicateIdempotent ([ClientConfig]) makes
// jobs of idempotent classes unique, [UntilExecuting], unless the class or the push has [Unique] or
// [NotUnique].
//
// The lock decides which pushes are accepted. It is not a mutex. An accepted job runs at least once, like any
// other, so two runs may overlap: when a process was declared dead and another one runs its job, or when the
// lock expired before the job ended. A lock expires after its TTL if the job waits for longer in its queue,
// and then another push is accepted.
//
// Jobs in different queues count as equal unless PerQueue is set, because a job may change its queue: retries
// may have a queue of their own. Scheduled jobs take no lock before they are due, unless IncludingScheduled is
// set. Sidekiq's processes and its web pages ignore these locks: if they run or delete a job, its lock stays
// until its TTL has passed, or until an operator releases it with belay locks release.
//
// # Arguments
//
// In Redis a job's arguments are a list, as for Ruby's perform(user_id, team_id). The T of a Definition
// describes the whole list; package job/args has the rules:
//
//	T                                                  arguments
//	struct{ UserID, TeamID int64 }                     [42,7]: the exported fields, in order
//	struct{ ID int; IDs []int `belay:",rest"` }        [1,2,3]: the last takes all that follow
//	struct{ ID int; Express bool `json:",omitempty"` } [1]: left out when it is empty and nothing follows
//	struct{ ID int; Cache any `belay:"-"` }            [1]: no argument; so is an unexported field, which needs the tag
//	any struct, with NamedArgs                         [{"UserID":42}]: one object, by encoding/json's rules
//	int, []int, time.Time, ...                         [5], [[1,2]], ["2026-01-02T03:04:05Z"]: one argument
//
//	type of a field                                    in the list
//	*string                                            "x" or null; null is the zero value for other types
//	a struct, a map                                    an object, by encoding/json's rules; keys are strings
//	int64, uint64                                      42, with all its digits
//	float64                                            12.0
//	any                                                any JSON value; its numbers are json.Number
//	json.RawMessage                                    any JSON, written as Ruby would write it
//	[]byte                                             a Base64 string
//
// Add new fields at the end, so that jobs that wait already still fit: missing arguments at the end are zero
// values. An argument of the wrong type, or one too many, fails the job
// with an [ArgumentError], which contains types and never the argument. Define panics over a T that cannot be
// written as JSON or would not be read back unchanged, such as one with an unexported field.
//
// Use [NamedArgs] for classes that only Go programs push and run: fields may then be added anywhere, moved and
// removed while jobs wait. Without it the position counts: a field that is inserted, moved or removed changes
// what the arguments of waiting jobs mean, and only a field at the end is safe. That is the form that Ruby and
// belay push have. belaytest.Wire fails when the form of a class changes.
//
// # Where to go on
//
//   - Definitions: [Define], with a [DefineOption] or [JobOption].
//   - Pushes: [Open] or [NewClient], [Definition.Enqueue], [Definition.EnqueueMany], [Definition.EnqueueSeq];
//     [Client] and [RawJob] for classes of another language.
//   - Reading a replica that must have the data written before the push: [StampWAL] or [WALLocation], and
//     in the handler [WALPositions] and package dedup/wal.
//   - Arguments that Redis must not have in plain text: [Encrypted] or [EncryptedAll], with [Keys].
//   - Refusing duplicates: [Unique], with [UniqueOpts] or [UniqueBy].
//   - Running jobs: [NewServer] with a [ServerConfig], [Definition.Handle] or [Server.Register],
//     [Server.HandleRaw], [Server.Run]; or [Main].
//   - What a handler may return: nil, an error, [Discard], [Kill], [RetryIn], [Snooze],
//     [RateLimited], [Interrupted].
//   - What an error does to its job, by a rule: [DiscardOn], [KillOn], [SnoozeOn].
//   - What a handler may read: [Info], [Stopping], [Log], and why its context ended, by [context.Cause]:
//     [ErrTimeout], [ErrDeadline], [ErrCancelled], [ErrShutdown], [ErrOwnershipLost].
//   - Long jobs that continue after a stop or a crash: [Checkpoint], [Resume], [Each], [Pages].
//   - Results, states and progress of jobs: [DefineResult] and [Track], [ResultDefinition.Wait], [Progress].
//   - Jobs that are enqueued when another one is done: [Then], [Sequence], and [Previous] for its result.
//   - Jobs with a common end, and callbacks at it: [NewBatch] with a [BatchConfig], [InBatch], [BatchOf],
//     [BatchInvalid].
//   - Jobs of which a few run at once in the fleet, or start in a time: [Limited] and [LimitedTo] with a
//     [Limit], [Window], [Leaky], [RateLimited]. Other code within a limit: [Do].
//   - Jobs at the times of a schedule: [Server.Schedule] with a [Periodic], or at run time Client.SetPeriodic.
//   - Cancelling jobs and everything else that operators do: package inspect. Dropping jobs that are too late:
//     [ExpiresIn], [Deadline].
//   - Middleware and callbacks: [Server.Use], Client.Use, [Around], [AroundArgs], [AfterRun]; [OnExhausted],
//     [Server.OnError] and the others.
package belay
