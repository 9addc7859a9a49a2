// Package batch decides what the members of a batch and its callbacks are. This package is not public API: only
// what package belay exports from it carries a compatibility promise.
//
// It exists so that the rules of batches can be read and tested without a server. A member is a job whose
// payload names the batch and the queue of its callbacks. [Ending] says what the end of a member's run means
// for the batch, and [Callback] writes the text of a callback, which the script that ends the last member
// stores.
//
// It must never do I/O, read a clock or draw a random id, and never panic because of a payload.
package batch
