package lua

import "time"

var signalScript = load("signal")

// keepSignal is how long a signal waits for its process, as in Ruby.
const keepSignal = 60 * time.Second

// Signal sends a process a signal by its name in Sidekiq, such as TSTP. It returns false if there is no such
// process. The process receives the signal with its next heartbeat reply.
func (k Keys) Signal(identity, name string) Ask[bool] {
	return asking(signalScript, []string{k.Signals(identity), k.Processes(), k.Alive()},
		[]string{identity, name, wholeSeconds(keepSignal)}, wordIs("sent"))
}
