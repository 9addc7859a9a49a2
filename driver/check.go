package driver

import (
	"fmt"
	"strings"
)

// unfit are the commands that a connection shared with others cannot carry: they change what it is for everyone
// after (subscriptions, a selected database, an open transaction), or keep everyone waiting.
var unfit = map[string]bool{
	"SUBSCRIBE": true, "PSUBSCRIBE": true, "SSUBSCRIBE": true,
	"UNSUBSCRIBE": true, "PUNSUBSCRIBE": true, "SUNSUBSCRIBE": true,
	"MONITOR": true, "SYNC": true, "PSYNC": true, "QUIT": true, "RESET": true,
	"HELLO": true, "AUTH": true, "SELECT": true,
	"MULTI": true, "EXEC": true, "DISCARD": true, "WATCH": true, "UNWATCH": true,
	"BLMOVE": true, "BLPOP": true, "BRPOP": true, "BRPOPLPUSH": true, "BLMPOP": true,
	"BZPOPMIN": true, "BZPOPMAX": true, "BZMPOP": true, "WAIT": true, "WAITAOF": true,
}

// Check says whether the call may be sent through Client.Do. Its error is a *NotSentError: the call has no
// command at all, or one that waits (use a Waiter) or changes the connection (use a script for a
// transaction).
func (c Call) Check() error {
	if c.Script != nil {
		return nil
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return &NotSentError{Err: fmt.Errorf("driver: a call without a command")}
	}
	name := strings.ToUpper(c.Args[0])
	if unfit[name] || name == "CLIENT" && len(c.Args) > 1 && strings.EqualFold(c.Args[1], "REPLY") {
		return &NotSentError{Err: fmt.Errorf("driver: %s cannot be sent over a shared connection", name)}
	}
	return nil
}
