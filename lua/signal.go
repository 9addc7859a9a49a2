package lua

import (
	"strconv"
	"time"
)

var signalScript = load("signal")

// keepSignal is how long a signal waits for its process, as in Ruby.
const keepSignal = 60 * time.Second

// Signal sends a process a signal by its name in Sidekiq, such as TSTP, and answers false when there is no
// such process. The process receives it with its next heartbeat reply; a process that is gone by then never
// does.
func (k Keys) Signal(identity, name string) Ask[bool] {
	return asking(signalScript, []string{k.Signals(identity), k.Processes(), k.Alive()},
		[]string{identity, name, strconv.Itoa(int(keepSignal / time.Second))},
		func(value any) (bool, error) {
			word, err := wordOf(value)
			return word == "sent", err
		})
}
