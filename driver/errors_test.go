package driver

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCertain(t *testing.T) {
	t.Parallel()
	refused := NewServerError("WRONGTYPE not a list")
	for _, c := range []struct {
		name            string
		err             error
		certain, outage bool
	}{
		{"no failure is no outage", nil, false, false},
		{"a refusal is certain", refused, true, false},
		{"a refusal is certain when wrapped", fmt.Errorf("settle: %w", refused), true, false},
		{"a full server is cured by waiting", NewServerError("OOM command not allowed"), true, true},
		{"so is one with too many clients", NewServerError("ERR max number of clients reached"), true, true},
		{"so is one that wants a password first", NewServerError("ERR Protocol error: unauthenticated multibulk length"), true, true},
		{"so is one that wants none", NewServerError("ERR AUTH <password> called without any password configured for the default user."), true, true},
		{"a mistake stays one", NewServerError("ERR unknown command"), true, false},
		{"what never left is certain", &NotSentError{Err: errors.New("refused")}, true, true},
		{"a password refused before anything left is both", &NotSentError{Err: NewServerError("WRONGPASS no")}, true, true},
		{"a denied user stays denied", &NotSentError{Err: NewServerError("NOPERM no")}, true, false},
		{"a lost answer is uncertain", &UncertainError{Err: errors.New("EOF")}, false, true},
		{"whatever it wraps", &UncertainError{Err: &NotSentError{Err: refused}}, false, true},
		{"so is an unmarked error", errors.New("EOF"), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.certain, Certain(c.err))
			require.Equal(t, c.outage, Outage(c.err))
		})
	}
}

func TestAFullServerIsNotAway(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("push: %w", NewServerError("OOM command not allowed"))
	require.True(t, Outage(full))
	require.False(t, Away(full))
	require.False(t, Away(nil))
	require.False(t, Away(NewServerError("WRONGTYPE not a list")))
	require.True(t, Away(NewServerError("LOADING")))
	require.True(t, Away(errors.New("EOF")))
}

func TestADenialSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]string{
		"WRONGPASS invalid username-password pair or user is disabled.":                                              "is wrong",
		"NOAUTH Authentication required.":                                                                            "wants a password",
		"ERR Protocol error: unauthenticated multibulk length":                                                       "wants a password",
		"ERR Protocol error: unauthenticated bulk length":                                                            "wants a password",
		"ERR AUTH <password> called without any password configured for the default user. Are you sure?":             "has no password",
		"NOPERM this user has no permissions to run the 'evalsha' command":                                           "belay check",
		"ERR The user executing the script can't run this command or subcommand script: 0d, on @user_script:40.":     "belay check",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments": "belay check",
	} {
		require.Contains(t, Denial(fmt.Errorf("beat: %w", &NotSentError{Err: NewServerError(text)})), part)
	}
	for _, err := range []error{nil, errors.New("EOF"), NewServerError("LOADING"), NewServerError("ERR max number of clients reached"),
		&UncertainError{Err: errors.New("NOAUTH, says something else")}} {
		require.Empty(t, Denial(err), "%v", err)
	}
	require.True(t, TooManyClients(fmt.Errorf("beat: %w", &NotSentError{Err: NewServerError("ERR max number of clients reached")})))
	require.False(t, TooManyClients(NewServerError("ERR unknown command")))
}

func TestUncertainError(t *testing.T) {
	t.Parallel()
	err := error(&UncertainError{Err: context.DeadlineExceeded})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
}

func TestNewServerError(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]string{
		"OOM no room": "OOM", "ERR unknown": "ERR", "NOSCRIPT": "NOSCRIPT", "user_script:3: attempt": "ERR", "": "ERR",
		"ERR ACL failure in script: User w has no permissions to run the 'del' command script: 0d, on @user_script:1.": "NOPERM",
		"ERR The user executing the script can't run this command or subcommand script: 0d, on @user_script:40.":       "NOPERM",
	} {
		err := NewServerError(text)
		require.Equal(t, code, err.Code, text)
		require.Equal(t, text, err.Error())
	}
}
