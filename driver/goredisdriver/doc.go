// Package goredisdriver lets Belay speak to Redis through go-redis.
//
// It exists to take from go-redis what a job system needs (connections, TLS, pooling) and to switch off what
// would lose or double jobs: go-redis re-sends a failed command up to three times, scripts included, drops a
// pipeline to bare NOSCRIPT errors after a restart, and answers a network failure in the middle of a pipeline
// the same way as one before it. Here every command goes out at most once and every failure says whether it
// left.
//
// It must never re-send what may have been executed, close a client that a user handed in, or touch go-redis'
// process-wide logger.
package goredisdriver
