// Package belay runs background jobs on Redis, in Sidekiq's wire format. Most programs import only this
// package. It has Define, configs, constructors and aliases. It has no rules of its own, starts no
// goroutines, and calls Redis only to ping it in Open and to check its configuration when a Server starts.
// The packages below it do the work.
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
// A definition ([Define]) names a class of jobs and the type of its arguments.
//
// [Definition.Enqueue] writes the job's payload, one line of JSON as Ruby's Sidekiq would write it. From then
// on the job is identified by these bytes. They are stored at the back of the list queue:mail (LPUSH; script
// push when jobs of one call go to several queues), and the caller gets a receipt. If Redis' reply is lost,
// Enqueue returns [ErrUnknown]; the client sends a [PushOnce] job again, and Redis stores it once. With [In]
// or [At] the job first waits in the set schedule. From here on the job is in exactly one place at every
// instant. One script moves it to the next place, completely or not at all.
//
// When a processor of a worker process is idle, it takes the job: script take moves it from the queue into
// the process' own working list. The job stays there while its handler runs, so no job is lost when its
// process dies.
//
// When the handler returns, the run has an outcome. Script settle removes the job from the working list, puts
// it where it goes next and moves the counters, in one step:
//
//	no error        done: it is removed
//	an error        the retry set: it runs again after a delay, 25 times by default
//	no retries left the dead set, which operators read
//	Discard, Kill   removed; the dead set
//	RetryIn, Snooze the retry set, after a delay of the handler's choice; the schedule, not counted as a failure
//	                (script promote moves both to their queue when they are due)
//	shutdown        back to the head of its queue, as if it had not been taken
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
// crash costs no retry. A job that was running in two crashes is quarantined: it runs with nothing beside it.
// If that process crashes too, the job is moved to the dead set.
//
// So every job runs at least once, as long as Redis keeps what it acknowledged. A job runs twice if its
// process dies after the work is done and before the result is settled. So handlers should be idempotent;
// [Idempotent] declares that they are.
//
// # Unique jobs
//
// A job that is [Unique] is refused while an equal job holds their common lock:
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
//
// With RescheduleOnce ([UniqueOpts]) the job runs once more if a duplicate was refused after the run began:
// when the job ends, settle stores it again as a new job, with the lock. So the last change is always seen by
// a run that began after it. The rule is stored in the job that holds the lock: the rejected push's options
// are ignored.
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
// set. Sidekiq's processes and pages ignore these locks: if they run or delete a job, its lock stays until its
// TTL has passed, or until an operator releases it with belay locks release.
//
// # Arguments
//
// In Redis a job's arguments are a list, as for Ruby's perform(user_id, team_id). The T of a Definition
// describes the whole list; package job/args has the rules:
//
//	T                                                  arguments
//	struct{ UserID, TeamID int64 }                     [42,7]: the exported fields, in order; a new one goes last
//	struct{ ID int; IDs []int `belay:",rest"` }        [1,2,3]: the last takes all that follow
//	struct{ ID int; Express bool `json:",omitempty"` } [1]: left out when it is empty and nothing follows
//	struct{ ID int; Cache any `belay:"-"` }            [1]: no argument
//	any struct, with NamedArgs                         [{"UserID":42}]: one object, by encoding/json's rules
//	int, []int, time.Time, ...                         [5], [[1,2]], ["2026-01-02T03:04:05Z"]: one argument
//
//	a field                                            is, inside of the list
//	*string                                            "x" or null; null is the zero value for other types
//	a struct, a map                                    an object, by encoding/json's rules; keys are strings
//	int64, uint64, float64                             42 with all its digits; 12.0
//	any                                                any JSON value; its numbers are json.Number
//	json.RawMessage, []byte                            any JSON, in Ruby's spelling; Base64
//
// Missing arguments at the end are zero values. An argument of the wrong type, or one too many, fails the job
// with an [ArgumentError], which contains types and never the argument. Define panics over a T that cannot be
// written as JSON or would not be read back unchanged.
//
// # Where to go on
//
//   - Definitions: [Define], with a [DefineOption] or [JobOption].
//   - Pushes: [Open] or [NewClient], [Definition.Enqueue], [Definition.EnqueueMany]; [Client] and [RawJob] for
//     classes of another language.
//   - Reading a replica that must have the data written before the push: [StampWAL] or [WALLocation], and
//     in the handler [WALPositions] and package dedup/wal.
//   - Refusing duplicates: [Unique], with [UniqueOpts] or [UniqueBy].
//   - Running jobs: [NewServer] with a [ServerConfig], [Definition.Handle] or [Server.Register],
//     [Server.HandleRaw], [Server.Run]; or [Main].
//   - What a handler may return: nil, an error, [Discard], [Kill], [RetryIn], [Snooze], [Interrupted].
//   - What a handler may read: [Info], [Stopping], [Log], and why its context ended, by [context.Cause]:
//     [ErrTimeout], [ErrDeadline], [ErrCancelled], [ErrShutdown], [ErrOwnershipLost].
//   - Long jobs that continue after a stop or a crash: [Checkpoint], [Resume], [Each], [Pages].
//   - Results, states and progress of jobs: [DefineResult] and [Track], [ResultDefinition.Wait], [Progress].
//   - Jobs at the times of a schedule: [Server.Schedule] with a [Periodic].
//   - Cancelling jobs and everything else that operators do: package inspect. Dropping jobs that are too late:
//     [ExpiresIn], [Deadline].
//   - Middleware and callbacks: [Server.Use], Client.Use, [AfterRun], [Server.OnError] and the others.
package belay
