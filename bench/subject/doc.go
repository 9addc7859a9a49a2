// Package subject defines the protocol between the bench and a program that it measures.
//
// Every measured system, Belay included, is a subject: a program in a process of its own, in any language, so
// that no system is measured with another's heap. To add one, write a program that follows this protocol:
//
// It reads one line from standard input, a Task as JSON, and answers with Events, one JSON object a line, on
// standard output. After an event that says so it waits until it has read one more line. What it writes to
// standard error is shown only when it fails. It ends when its standard input ends, so a bench that is killed
// leaves no process behind.
//
// Every measure begins with the event ready, said once the program's connections are open and before it does
// any work, after which it waits, and ends with done, or with failed and exit status 1:
//
//	drain     pushes Jobs jobs in bulk, each with its number as its only argument; pushed, waits; starts one worker
//	          process; done when the end of every job is acknowledged by the store, which is later than an empty queue.
//	          Seconds run from the worker's start to the last acknowledgement. Each job must have run exactly once.
//	enqueue   Producers at once enqueue Jobs jobs in all, one a call, each awaiting its answer. No worker runs.
//	bulk      the same jobs in bulk, in the system's best way.
//	latency   with an idle worker, jobs are enqueued at instants fixed beforehand, Rate a second for Seconds seconds, each
//	          moved by a random phase of up to a period; LatenciesUS are from the intended instant to the handler, one a job.
//	schedule  the same number of jobs, due one after the other at Rate a second, the first 3 s after the push began;
//	          LatenciesUS are from the due instant to the handler, negative for a job that ran early.
//	burst     Jobs jobs all due at one instant, at least 3 s after the last was stored; LatenciesUS as in schedule.
//	victim    Concurrency handlers take Jobs jobs that sleep 60 s from the queue "recover"; holding when all have started;
//	          then it waits to be killed. The library's default settings hold: they are what is measured.
//	survivor  a worker of the queue "recover" with default settings; ran, at once, for each job.
//	push      stores Jobs jobs in bulk, class "WelcomeEmail", args [n, "welcome", {"locale": "en"}]; pushed, waits.
//	version   done with Settings naming the library, its version, and its runtime.
//
// In latency, schedule and burst, Best asks for the settings under which jobs run soonest, however much that
// costs. Without it a system looks for jobs as often as it does by default; only the concurrency is given.
//
// Elsewhere the class is "Noop" and the args are [n], n from 0.
package subject
