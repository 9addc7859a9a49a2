package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

// answer returns the reply to a call. late means that its deadline passed, which is then the cause of a
// failure; unsent means that it has certainly not been written.
func answer(result rueidis.RedisResult, late, unsent bool) driver.Reply {
	err := result.NonRedisError()
	if err == nil {
		return value(result)
	}
	var undialled *driver.NotSentError
	var refused *rueidis.RedisError
	switch {
	case errors.As(err, &undialled):
		return driver.Reply{Err: undialled}
	case errors.As(err, &refused):
		// An error reply where a network error is expected is the server's reply to the handshake.
		return driver.Reply{Err: &driver.NotSentError{Err: serverError(refused.Error())}}
	case late:
		err = context.DeadlineExceeded
	}
	if unsent {
		return driver.Reply{Err: &driver.NotSentError{Err: fmt.Errorf("prepare the connection: %w", err)}}
	}
	return driver.Reply{Err: &driver.UncertainError{Err: err}}
}

// serverError returns the ServerError for a text from which rueidis has removed an "ERR".
func serverError(text string) *driver.ServerError {
	// "AUTH <password> called without any password configured" begins with a command's name, which is not a
	// code.
	if code, _, _ := strings.Cut(text, " "); strings.ToUpper(code) != code || code == "AUTH" {
		text = "ERR " + text
	}
	return driver.NewServerError(text)
}

func value(result rueidis.RedisResult) driver.Reply {
	message, _ := result.ToMessage()
	v, err := neutral(&message)
	return driver.Reply{Value: v, Err: err}
}

// neutral returns nil, a string, an int64 or a []any of these. An error inside an array is the error of the
// whole reply.
func neutral(m *rueidis.RedisMessage) (any, error) {
	switch {
	case m.IsNil():
		return nil, nil
	case m.IsInt64():
		return m.ToInt64()
	case m.IsString():
		return m.ToString()
	case m.IsArray():
		return neutrals(m)
	case m.Error() != nil:
		text, _ := m.ToString() // with the "ERR" that m.Error lacks
		return nil, driver.NewServerError(text)
	}
	return nil, fmt.Errorf("rueidisdriver: a reply of a type that RESP2 does not have: %s", m.String())
}

func neutrals(m *rueidis.RedisMessage) (any, error) {
	items, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	values := make([]any, len(items))
	for i := range items {
		if values[i], err = neutral(&items[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}
