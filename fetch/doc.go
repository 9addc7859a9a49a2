// Package fetch takes jobs out of Redis and answers for them until they are settled.
//
// A process lives under an identity (Life) and moves jobs from queues into working lists that bear its name. While it
// beats, they are its own. The Fetcher is the state of that: which jobs are in hand, which ends of runs Redis has not
// yet confirmed, which takes and waits are under way. It asks for as many jobs as there are idle processors and never
// for more, waits without polling when all queues are empty, and finds by reading its own lists the jobs whose reply
// was lost on the way (Look). Package janitor is the other side: it
// brings the jobs of dead processes back to their queues.
//
// This package must never decide what an end of a run means (package retry does), nor loop or sleep by itself: its user
// says when.
package fetch
