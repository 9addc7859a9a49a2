// Package belay is background jobs for Go on Redis, in Sidekiq's wire format; it is the one import for what
// programs use. The package itself is a lobby, of aliases, options, constructors and Define: it keeps no
// rules, starts no goroutines, and calls Redis only to ping it in Open, and to check its configuration at the
// start of a Process. The packages below do the work; each answers one question.
//
// To belay is to hold the rope: when a worker falls, its jobs do not.
//
// # The first program
//
// It puts a job in and works it off:
//
//	type WelcomeArgs struct{ UserID, TeamID int64 }
//
//	var Welcome = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.Retries(5), belay.NotIdempotent("duplicate emails are acceptable"))
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//		defer stop()
//		client, err := belay.Open(ctx, os.Getenv("REDIS_URL"), nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42, TeamID: 7})
//		fmt.Println(receipt.Status, err)
//
//		server, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("critical", "mail")})
//		if err != nil {
//			log.Fatal(err)
//		}
//		Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
//			fmt.Println("welcome, user", args.UserID)
//			stop() // a real worker goes on until it is told to stop
//			return nil
//		})
//		fmt.Println(server.Run(ctx))
//	}
//
// A program that only enqueues leaves out the server, one that only works the Enqueue. What they share is the
// definition.
//
// # A job's whole life
//
// A definition ([Define]) names a class of jobs and the type of its arguments.
//
// [Definition.Enqueue] writes the job's payload, one line of JSON as Ruby's Sidekiq would write it. From then
// on the job is these bytes. They are stored at the back of the list queue:mail (LPUSH; script push when jobs
// of one call go to several queues), and the caller has a receipt. If Redis' answer is lost, the receipt says
// so ([ErrUnknown]); a [PushOnce] push is then sent again, and stored once. With [In] or [At] the job first
// waits in the set schedule. At every instant from here on the job is in exactly one place, and it moves from
// one to the next by one script that does all of the move or nothing.
//
// A worker process lives while it beats (scripts register and beat). When one of its processors is idle it
// takes the job: script take moves it from the queue into the process' own working list. There it stays while
// its handler runs; that is what "in hand" means, and why no job is lost with the process that has it.
//
// When the handler returns, the run has an outcome, which package retry makes of the error. Script settle
// ends the run: it first removes the job from the working list, and in the same step puts it where it goes
// next and moves the counters:
//
//	no error        done: it is gone
//	an error        retry: the set of jobs that run again after a delay, 25 times unless the job says otherwise
//	no retries left dead: the set that people look through
//	Discard, Kill   gone; dead
//	RetryIn, Snooze retry, after a delay of the handler's choice; schedule, not counted as a failure
//	                (both come back to their queue by script promote when their time has come)
//	shutdown        back to the head of its queue, as if it had not been taken
//
// A panic is an error, with its stack. A class that no handler is registered for is one, too: another process
// may know it.
//
// If settle does not find the job in the working list, the process has been declared dead meanwhile and the
// job is somebody else's: nothing is written.
//
// If the process dies, its beats stop and its life lapses. Another process that has seen it lapsed twice,
// with its own sight of Redis unbroken, brings its jobs back: script recover declares it dead, in the same
// step moves the jobs from its working list to the head of their queue, and from then on refuses the dead
// one's beats. A crash costs no retry. A job that was in hand in two crashes is a suspect and runs with
// nothing beside it; if its process dies again, it is dead.
//
// So every job runs at least once, as long as Redis keeps what it has acknowledged. It may run twice, when a
// process died after the work was done and before that was settled: handlers should be idempotent
// ([Idempotent] says so of a class).
//
// # Unique jobs
//
// A job that is [Unique] is refused while another that counts as the same holds their lock:
//
//	var Reindex = belay.Define[ReindexArgs]("Reindex", belay.Idempotent(),
//		belay.Unique(belay.UntilExecuted), belay.UniqueByFields("ProductID"))
//
//	receipt, err := Reindex.Enqueue(ctx, client, ReindexArgs{ProductID: 42, AskedBy: "Ann"})
//	if receipt.Status == belay.StatusDuplicate { // and err is nil: nothing went wrong
//		fmt.Println("job", receipt.Holder, "will do it")
//	}
//
// The lock is taken by the script that stores the job (push_unique), in the same step, and stands in the
// payload, by which all later scripts know it:
//
//	UntilExecuting   (the default) script start frees it before the handler is called: a job pushed after that is a new job
//	UntilExecuted    every end of the job frees it, in the same step: done, discarded, dead, deleted by an operator of Belay;
//	                 script renew prolongs it at each beat while the job is in hand; a retry, a shutdown and a crash keep it
//
// With [RescheduleOnce] what was refused after the start of the run is not forgotten: when the job ends,
// settle stores it once more, as a job of its own, and gives that the lock. So the last change is always seen
// by a run that began after it. The rule travels with the job that holds the lock: the rejected push's
// options are ignored.
//
// With [MarkDuplicates] no push is refused. Duplicates are stored without the lock and marked: duplicate-of
// in the payload is the jid of the job that holds the lock.
//
// Whether a class is [Idempotent] makes no difference to its unique jobs. A client with
// [DeduplicateIdempotent] makes jobs of idempotent classes unique, [UntilExecuting], unless the class or the
// push says [Unique] or [NotUnique].
//
// What is constrained is which pushes are accepted. A job that was accepted is never asked again, and runs at
// least once as any other; so two runs may meet, though only one was accepted: when a process was taken for
// dead and a survivor runs its job, or when the lock had gone before the job ended. A lock goes after its
// [LockTTL] (six hours) if the job waits for longer in its queue, and then another push is accepted. It is no
// mutex: what must not run twice at the same time needs one.
//
// The queue does not count unless [PerQueue] says so, because a job moves: retries may have a queue of their
// own. Jobs for later are left alone unless [IncludingScheduled] says otherwise. Sidekiq's processes and
// pages know nothing of these locks: of a job that they run or delete, the lock stands until its TTL has
// passed, or an operator says belay locks release.
//
// # Arguments
//
// In Redis a job's arguments are a list, as for Ruby's perform(user_id, team_id). The T of a Definition
// stands for all of it; package job/args tells the rules:
//
//	T                                                  arguments
//	struct{ UserID, TeamID int64 }                     [42,7]: the exported fields, in order; a new one goes last
//	struct{ ID int; IDs []int `belay:",rest"` }        [1,2,3]: the last takes what stands behind
//	struct{ ID int; Express bool `json:",omitempty"` } [1]: left out when it is empty and nothing follows
//	struct{ ID int; Cache any `belay:"-"` }            [1]: no argument
//	int, []int, time.Time, ...                         [5], [[1,2]], ["2026-01-02T03:04:05Z"]: one argument
//
//	a field                                            is, inside of the list
//	*string                                            "x" or null; null is the zero value for other types
//	a struct, a map                                    an object, by encoding/json's rules; keys are strings
//	int64, uint64, float64                             42 with all its digits; 12.0
//	any                                                whatever is there; its numbers are json.Number
//	json.RawMessage, []byte                            any JSON, in Ruby's spelling; Base64
//
// Missing arguments at the end are zero values. One that does not fit when a job is run, or is one too many,
// fails the job with an [ArgumentError], which shows types and never the argument. A T that has no JSON, or
// would not come back as it was, panics in Define.
//
// # Where to go on
//
//   - What there is to do: [Define], with options that begin at [DefineOption] and [JobOption].
//   - Putting jobs in: [Open] or [NewClient], [Definition.Enqueue], [Definition.EnqueueMany]; [Client] and [RawJob] for classes
//     that are another language's.
//   - Reading a replica that must have what was written before the push: [StampWAL] or [WALLocation], and in the handler
//     [WALPositions] and package dedup/wal.
//   - Refusing duplicates: [Unique], with [UniqueByFields] or [UniqueBy], and [ClientLogger] to hear of it.
//   - Running them: [NewServer] with [ServerOption], [Definition.Handle] or [Handlers], [Server.HandleRaw], [Server.Run].
//   - What a handler may answer: nil, an error, [Discard], [Kill], [RetryIn], [Snooze].
//   - What it may ask: [Info], [Log] for lines of its own, and why its context ended, by [context.Cause]: [ErrTimeout],
//     [ErrShutdown], [ErrOwnershipLost].
//   - What stands around it: [Middleware], [PushMiddleware], [Server.OnError] and its siblings.
//   - What the server logs, and where: [Logger] or [SlogHandler]; [LogArgs], [Redact] and [RedactError].
package belay
