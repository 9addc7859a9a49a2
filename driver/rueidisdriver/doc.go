// Package rueidisdriver lets Belay use Redis through rueidis.
//
// Each client is one connection on which every call is pipelined in order: that is rueidis' fastest mode,
// and the only one that keeps the replies that came before a connection broke. The package switches off
// what would run a job twice (connections with a lifetime send again what was in flight) or cost an idle
// worker commands (client-side caching, a PING every second). It adds deadlines, which rueidis does not set
// on a pipelined connection, and it dials nothing before the first use.
//
// It must never send again what may have been executed, cancel the context of a blocked call, or let a
// panic escape by which rueidis checks its callers. rueidis' own client of a Cluster is not used: Open finds
// the node of the prefix.
package rueidisdriver
