// Package seal encrypts arguments of jobs, and opens them again.
//
// It exists because a program that can read Redis, its snapshots or its replicas can read the arguments of
// every job. Some of them are secret, and a program may have no other place for them. So a producer seals an
// argument just before the payload is written, and a worker opens it just before the handler gets it: between
// the two, Redis, logs and dashboards have only the sealed text.
//
// # On the wire
//
// A payload with a sealed argument has "encrypt":true, the field of Sidekiq Enterprise, so that Sidekiq's pages
// hide its last argument, and that argument is the string
//
//	belay:enc:1:SCOPE:KEYID:TEXT
//
// SCOPE is "last" if the plain text is the last argument, as JSON, and "all" if it is the array of all of them;
// then the string is the only argument. TEXT is, in base64url without padding, a random nonce of 12 bytes, the
// AES-256-GCM of the plain text, and its tag of 16 bytes. The additional data are the bytes of the string
// before TEXT, followed by the class.
//
// So a sealed argument opens only in a job of the class for which it was sealed. It is not bound to the jid: a
// worker without any key gives the arguments of a job to its rerun, under a new jid (see dedup.Rerun). A
// program that can write to Redis can therefore copy a sealed argument into another job of that class.
//
// The package must never show a key or a plain text in a message, and never read a text as plain that a payload
// calls encrypted.
package seal
