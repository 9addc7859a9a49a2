package driver

import (
	"errors"
	"strings"
)

// ErrNoRelease means that this server cannot end a blocked wait (it has no CLIENT UNBLOCK, or denies it).
var ErrNoRelease = errors.New("driver: the server cannot release a blocked wait")

// ErrClosedAtOnce reports that the server closed a new connection before any reply. A server with too many
// clients does so, and its error reply may be lost.
var ErrClosedAtOnce = errors.New("the server closed the new connection at once (" + tooManyClients + " reached?)")

// A ServerError is an error reply: the server refused the call, or a script stopped.
type ServerError struct {
	// Code is the first word in capitals: WRONGTYPE, OOM, NOPERM, ERR. It is NOPERM too for what a script was
	// denied, which Redis calls ERR.
	Code string
	// Message is the whole text, including the code.
	Message string
}

func (e *ServerError) Error() string { return e.Message }

// NewServerError returns the ServerError with the text of an error reply.
func NewServerError(text string) *ServerError {
	code, _, _ := strings.Cut(text, " ")
	if code == "" || strings.ToUpper(code) != code {
		code = "ERR"
	}
	if code == "ERR" && (strings.Contains(text, deniedInScript70) || strings.Contains(text, deniedInScript)) {
		code = "NOPERM"
	}
	return &ServerError{Code: code, Message: text}
}

// A NotSentError is a failure before anything was written: no server, no free connection, an ended context.
type NotSentError struct{ Err error }

func (e *NotSentError) Error() string { return e.Err.Error() }
func (e *NotSentError) Unwrap() error { return e.Err }

// An UncertainError is a failure after the call may have been sent: it may have been executed, or may still
// be. errors.Is finds the wrapped error but errors.As does not, so that a wrapped error cannot make Certain
// true.
type UncertainError struct{ Err error }

func (e *UncertainError) Error() string { return e.Err.Error() }

// Is reports whether the cause is target, such as context.DeadlineExceeded when no reply came in time.
func (e *UncertainError) Is(target error) bool { return errors.Is(e.Err, target) }

// Certain reports whether a failed call is known not to have been executed without a reply: the server
// refused it, or it was not sent. After any other error the call may have been executed, or may still be.
func Certain(err error) bool {
	var refused *ServerError
	var unsent *NotSentError
	return errors.As(err, &refused) || errors.As(err, &unsent)
}

// An AccessError is a failure to connect that waiting does not cure: a certificate that is not accepted, a
// port with another protocol, a file of the Redis URL that cannot be read. The same call succeeds once an
// operator has done what Advice says (see Denial).
type AccessError struct {
	Advice string
	Err    error
}

func (e *AccessError) Error() string { return e.Err.Error() + ": " + e.Advice }
func (e *AccessError) Unwrap() error { return e.Err }

// outageCodes are the error replies that mean "not now": the same call succeeds later, by itself or after
// an operator's action. Password errors are among them because the same call succeeds once the password is
// right; see Denial. So are a Cluster's redirections: a call is never sent after them, but the connection is
// replaced (see ReconnectLimiter), and while a slot moves, waiting cures them.
var outageCodes = map[string]bool{
	"LOADING": true, "READONLY": true, "BUSY": true, "OOM": true, "NOAUTH": true, "WRONGPASS": true, "MASTERDOWN": true,
	"MISCONF": true, "NOREPLICAS": true, "CLUSTERDOWN": true, "TRYAGAIN": true, "UNBLOCKED": true, "UNKILLABLE": true,
	"MOVED": true, "ASK": true,
}

// Outage reports whether err is temporary: no connection, no reply, or an error reply that means "not now".
// Calls with other errors fail again however often they are sent (a wrong type, a denied key, a server that
// is too old).
func Outage(err error) bool {
	if err == nil {
		return false
	}
	var refused *ServerError
	var old *OldServerError
	if !errors.As(err, &refused) {
		return !errors.As(err, &old)
	}
	return outageCodes[refused.Code] || (refused.Code == "ERR" && outageText(refused.Message))
}

// Away reports whether err is an outage of a server that is not just full. A full server is reachable: it
// serves calls that need no memory, and refuses the others (see OutOfMemory).
func Away(err error) bool { return Outage(err) && !OutOfMemory(err) }

// outageText recognizes errors of the same kind for which Redis has no code.
func outageText(message string) bool {
	return strings.Contains(message, tooManyClients) || strings.Contains(message, unauthenticated) || strings.Contains(message, noPassword)
}

// Texts of errors whose code is ERR.
const (
	// deniedInScript is what Redis 7.2 and Valkey say of a command of a script that the user may not call, and
	// deniedInScript70 what Redis 7.0 says.
	deniedInScript   = "ACL failure in script"
	deniedInScript70 = "The user executing the script can't"
	tooManyClients   = "max number of clients"
	// unauthenticated is the refusal of a call that is too large for an unauthenticated client.
	unauthenticated = "Protocol error: unauthenticated"
	// noPassword is the refusal of a password by a server that has none.
	noPassword = "without any password configured"
)

// TooManyClients reports whether a reachable server refused a connection because it has too many clients.
// It compares texts, because the error is an uncertain one if the refusal arrived while the call was being
// written.
func TooManyClients(err error) bool {
	return err != nil && strings.Contains(err.Error(), tooManyClients)
}

// IsFull reports whether the first bytes of a new connection are the refusal of a server with too many clients,
// which closes the connection after it.
func IsFull(reply []byte) bool { return strings.HasPrefix(string(reply), "-ERR "+tooManyClients) }

// OutOfMemory reports whether the server refused the call because it has reached its maxmemory. It still serves
// calls that need no memory, and takes and settles jobs.
func OutOfMemory(err error) bool {
	var refused *ServerError
	return errors.As(err, &refused) && refused.Code == "OOM"
}

// Forbidden reports whether this user may not call this command, or the server does not have it.
func Forbidden(err error) bool {
	var refused *ServerError
	return errors.As(err, &refused) && (refused.Code == "NOPERM" || strings.Contains(strings.ToLower(refused.Message), "unknown"))
}

// Denial returns what an operator must do if the server denied this client or this call access, or the client
// refused the server (see AccessError), and "" for every other error. Waiting does not cure a denial. If Outage
// is true as well, the password or the certificate is wrong, and the same call succeeds once it is right;
// otherwise a permission is missing.
func Denial(err error) string {
	var refused *ServerError
	var access *AccessError
	if errors.As(err, &access) {
		return access.Advice
	}
	if !errors.As(err, &refused) {
		return ""
	}
	switch {
	case refused.Code == "NOPERM":
		return "permit it to the Redis user; belay check prints the missing rule"
	case refused.Code == "WRONGPASS":
		return "the user or the password in the Redis URL is wrong, or the user is disabled"
	case refused.Code == "NOAUTH", refused.Code == "ERR" && strings.Contains(refused.Message, unauthenticated):
		return "this Redis wants a password: put it into the Redis URL"
	case refused.Code == "ERR" && strings.Contains(refused.Message, noPassword):
		return "this Redis has no password: take it out of the Redis URL"
	}
	return ""
}
