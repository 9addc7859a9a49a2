// Package goredisdriver lets Belay use Redis through go-redis.
//
// It uses go-redis' connections, TLS and pool, and switches off what would lose or repeat jobs: go-redis
// sends a failed command again up to three times, scripts included, returns only NOSCRIPT errors for a
// pipeline after a restart, and reports a network failure in the middle of a pipeline like one before it.
// Here every command is sent at most once, and every failure reports whether it was sent.
//
// It must never send again what may have been executed, close a client that a user passed in, or change
// go-redis' process-wide logger.
package goredisdriver
