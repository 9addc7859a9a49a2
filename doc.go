// Package belay is background jobs for Go on Redis, in Sidekiq's wire format. To belay is to hold the rope: when a worker
// falls, its jobs do not.
//
// This package is the lobby: one import for what programs use, and nothing behind the names but the packages below it.
// It has no rules of its own, speaks no Redis and starts no goroutine.
//
// # A job's whole life
//
// A definition names a class of jobs and the type of its arguments; producers and workers share it:
//
//	var Welcome = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.MaxRetries(5))
//
// Enqueue writes the job's payload, one line of JSON as Ruby's Sidekiq would write it. From then on the job is these
// bytes. They are stored at the back of the list queue:mail (LPUSH; script push when jobs of one call go to several
// queues), and the caller has a receipt. At every instant from here on the job is in exactly one place, and it moves
// from one to the next by one script that does all of the move or nothing.
//
// A worker process lives while it beats (scripts register and beat). When one of its processors is idle it takes the job:
// script take moves it from the queue into the process' own working list. There it stays while its handler runs; that is
// what "in hand" means, and why no job is lost with the process that has it.
//
// When the handler returns, the run has an outcome, which package retry makes of the error. Script settle ends the run: it
// first removes the job from the working list, and in the same step puts it where it goes next and moves the counters:
//
//	no error        done: it is gone
//	an error        retry: the set of jobs that run again after a delay, 25 times unless the job says otherwise
//	no retries left dead: the set that people look through
//	Discard, Kill   gone; dead
//	RetryIn, Snooze retry, after a delay of the handler's choice; schedule, not counted as a failure
//	                (both come back to their queue by script promote when their time has come)
//	shutdown        back to the head of its queue, as if it had not been taken
//
// If settle does not find the job in the working list, the process has been declared dead meanwhile and the job is
// somebody else's: nothing is written.
//
// If the process dies, its beats stop and its life lapses. Another process that has seen it lapsed twice, with its own
// sight of Redis unbroken, brings its jobs back: script recover declares it dead, in the same step moves the jobs from
// its working list to the head of their queue, and from then on refuses the dead one's beats. A crash costs no retry.
//
// So every job runs at least once, as long as Redis keeps what it has acknowledged. It may run twice, when a process
// died after the work was done and before that was settled: handlers should be idempotent.
//
// # Args
//
// A struct's exported fields, in order, are the job's positional arguments: {UserID: 42, Template: "x"} is [42,"x"], which
// Ruby's perform(user_id, template) understands. A field tagged json:"-" is none. Missing trailing arguments are zero
// values; more arguments than fields are an error. A type that is no struct, or has its own MarshalJSON or MarshalText, is
// one argument.
package belay
