package chaosplan

// A Fault is something that is done.
type Fault string

// The faults.
const (
	// Signals to a worker or pusher. A worker that was sent TSTP is sent TERM later.
	Kill  Fault = "KILL"
	Term  Fault = "TERM"
	Quiet Fault = "TSTP"
	// Stop is SIGSTOP until SIGCONT, Freeze the same by the cgroup freezer.
	Stop   Fault = "stop"
	Freeze Fault = "freeze"

	// DropRequests and DropReplies lose some of them, each with its connection: what was asked was not
	// executed, or was and the reply is lost.
	DropRequests Fault = "drop requests"
	DropReplies  Fault = "drop replies"
	// Unreceived and Unanswered leave connections open on which one direction is silent: Redis receives
	// nothing, or receives and executes and its replies are lost. Blackhole silences both.
	Unreceived Fault = "unreceived"
	Unanswered Fault = "unanswered"
	Blackhole  Fault = "blackhole"
	// HangUp closes the connections, once.
	HangUp Fault = "hang up"
	// Delay delays each reply, by what Text says.
	Delay Fault = "delay"
	// Latency and Bandwidth make the connection a slow link with the speed Link. Everything arrives, only
	// later.
	Latency   Fault = "latency"
	Bandwidth Fault = "bandwidth"
	// Errors answers every request with the error in Text, without executing it.
	Errors Fault = "errors"

	// RedisStop is SIGSTOP of Redis until SIGCONT. RedisKill is a SIGKILL, and a start when the time is over;
	// nothing that was acknowledged is lost by it.
	RedisStop Fault = "redis stop"
	RedisKill Fault = "redis kill"
	// FlushScripts is SCRIPT FLUSH, KillClients CLIENT KILL of all of them.
	FlushScripts Fault = "flush scripts"
	KillClients  Fault = "kill clients"
	// PauseAll and PauseWrites are CLIENT PAUSE.
	PauseAll    Fault = "pause all"
	PauseWrites Fault = "pause writes"
	// Full is a Redis at its maxmemory: it refuses pushes, and goes on with all else.
	Full Fault = "full"
	// Clock sets Redis' wall clock by Shift, and back when the time is over.
	Clock Fault = "clock"

	// FleetStop is SIGSTOP of all workers until SIGCONT.
	FleetStop Fault = "fleet stop"
)

// Faults are all of them.
func Faults() []Fault {
	var all []Fault
	for _, w := range ways {
		all = append(all, w.fault)
	}
	return all
}
