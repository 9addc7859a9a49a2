package driver

import (
	"fmt"
	"strings"
)

// unfit are the commands that must not be sent on a shared connection: they change its state for later
// callers (subscriptions, a selected database, an open transaction), or block it.
var unfit = map[string]bool{
	"SUBSCRIBE": true, "PSUBSCRIBE": true, "SSUBSCRIBE": true,
	"UNSUBSCRIBE": true, "PUNSUBSCRIBE": true, "SUNSUBSCRIBE": true,
	"MONITOR": true, "SYNC": true, "PSYNC": true, "QUIT": true, "RESET": true,
	"HELLO": true, "AUTH": true, "SELECT": true,
	"MULTI": true, "EXEC": true, "DISCARD": true, "WATCH": true, "UNWATCH": true,
	"BLMOVE": true, "BLPOP": true, "BRPOP": true, "BRPOPLPUSH": true, "BLMPOP": true,
	"BZPOPMIN": true, "BZPOPMAX": true, "BZMPOP": true, "WAIT": true, "WAITAOF": true,
}

// Check returns an error, a *NotSentError, if the call must not be sent through Client.Do: it has no
// command, or one that blocks (use a Waiter) or changes the connection (use a script for a transaction).
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
