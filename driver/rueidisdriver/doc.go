// Package rueidisdriver lets Belay speak to Redis through rueidis.
//
// Each client here is one connection on which every call is pipelined in order, since that is how rueidis is
// fastest and the only way in which it keeps the answers that came before a connection broke. Switched off is
// what would run a job twice (connections with a lifetime re-send what was in flight) or cost an idle worker
// commands (client-side caching, a PING a second). Two things are added: deadlines that rueidis does not set
// on a pipelined connection, and nothing is dialled before it is needed.
//
// It must never re-send what may have been executed, end the context of a blocked call, or let one of the
// panics by which rueidis checks its callers out. Cluster is not served yet.
package rueidisdriver
