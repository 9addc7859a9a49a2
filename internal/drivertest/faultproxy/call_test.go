package faultproxy_test

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *faultproxy.Proxy, string){
		"before_a_request_the_server_has_not_received_it":     beforeRequest,
		"before_a_reply_the_command_has_been_executed":        beforeReply,
		"after_a_request_it_is_on_its_way":                    afterRequest,
		"after_a_reply_what_follows_waits":                    afterReply,
		"half_open_requests_vanish_and_replies_come":          halfOpenRequests,
		"half_open_replies_vanish_and_requests_are_executed":  halfOpenReplies,
		"half_open_forged_replies_and_pushes_vanish_likewise": halfOpenForged,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, faultproxy.New(t, drivertest.Redis(t).Addr()), drivertest.Prefix(t))
		})
	}
}

// executed is whether a key exists on the server, asked past the proxy.
func executed(t *testing.T, key string) bool {
	t.Helper()
	answer, err := drivertest.Redis(t).Do(t.Context(), "EXISTS", key)
	require.NoError(t, err)
	return answer == int64(1)
}

func beforeRequest(t *testing.T, proxy *faultproxy.Proxy, p string) {
	seen := make(chan bool, 1)
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: p + "a", Nth: 2, Do: faultproxy.Before(func() { seen <- executed(t, p+"a2") })})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a1"}, []string{"INCR", p + "a2"}, []string{"INCR", p + "a3"})
	for range 3 {
		require.Equal(t, int64(1), k.hear(), "all of them pass")
	}
	require.False(t, <-seen)
}

func beforeReply(t *testing.T, proxy *faultproxy.Proxy, p string) {
	seen, hold := make(chan bool, 1), make(chan struct{})
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "a", Nth: 1, Do: faultproxy.Before(func() { seen <- executed(t, p+"a"); <-hold })})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"})
	require.True(t, <-seen)
	k.requireSilence()
	close(hold)
	require.Equal(t, int64(1), k.hear())
}

func afterRequest(t *testing.T, proxy *faultproxy.Proxy, p string) {
	reached, hold := make(chan struct{}), make(chan struct{})
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: p + "a", Nth: 1, Do: faultproxy.After(func() { close(reached); <-hold })})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"}, []string{"INCR", p + "b"})
	<-reached
	require.Equal(t, int64(1), k.hear(), "passed before the call has returned")
	require.False(t, executed(t, p+"b"), "what follows waits")
	close(hold)
	require.Equal(t, int64(1), k.hear())
}

func afterReply(t *testing.T, proxy *faultproxy.Proxy, p string) {
	hold := make(chan struct{})
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "a", Nth: 1, Do: faultproxy.After(func() { <-hold })})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"}, []string{"INCR", p + "b"})
	require.Equal(t, int64(1), k.hear())
	k.requireSilence()
	close(hold)
	require.Equal(t, int64(1), k.hear())
}

func halfOpenRequests(t *testing.T, proxy *faultproxy.Proxy, p string) {
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: p + "b", Nth: 1, Do: faultproxy.HalfOpen()})
	k := dial(t, proxy)
	k.say([]string{"BLPOP", p + "list", "10"}, []string{"INCR", p + "b"}, []string{"INCR", p + "c"})
	require.Eventually(t, func() bool { return proxy.Count("INCR") == 1 }, 10*time.Second, time.Millisecond)
	_, err := drivertest.Redis(t).Do(t.Context(), "LPUSH", p+"list", "x")
	require.NoError(t, err)
	require.Equal(t, []any{p + "list", "x"}, k.hear(), "what the server says arrives")
	k.requireSilence()
	require.False(t, executed(t, p+"b"))
	require.False(t, executed(t, p+"c"))
}

func halfOpenReplies(t *testing.T, proxy *faultproxy.Proxy, p string) {
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "b", Nth: 1, Do: faultproxy.HalfOpen()})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"}, []string{"INCR", p + "b"}, []string{"INCR", p + "c"})
	require.Equal(t, int64(1), k.hear())
	k.requireSilence()
	proxy.Clear()
	k.say([]string{"INCR", p + "d"})
	k.requireSilence()
	require.True(t, executed(t, p+"b"))
	require.True(t, executed(t, p+"d"), "what is said later is executed too")
	other := dial(t, proxy)
	other.say([]string{"GET", p + "d"})
	require.Equal(t, "1", other.hear(), "it is one connection's fate")
}

func halfOpenForged(t *testing.T, proxy *faultproxy.Proxy, p string) {
	k, other := dial(t, proxy), dial(t, proxy)
	k.say([]string{"HELLO", "3"}, []string{"CLIENT", "TRACKING", "ON"}, []string{"GET", p + "a"})
	for range 3 {
		k.hear()
	}
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "b", Nth: 1, Do: faultproxy.HalfOpen()},
		faultproxy.Rule{On: faultproxy.Requests, Token: p + "c", Do: faultproxy.Fail("LOADING not yet")})
	k.say([]string{"INCR", p + "b"})
	k.requireSilence()
	k.say([]string{"INCR", p + "c"})
	other.say([]string{"SET", p + "a", "1"})
	require.Equal(t, "OK", other.hear())
	k.requireSilence()
}

// sleeper starts a program that does nothing, and waits for its end only when the test ends.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestSignalsExactlyThere(t *testing.T) {
	t.Parallel()
	server := drivertest.Redis(t)

	t.Run("a_frozen_process_stands_still_before_the_frame_goes_on", func(t *testing.T) {
		t.Parallel()
		victim := drivertest.Start(t)
		proxy, p := faultproxy.New(t, victim.Addr()), drivertest.Prefix(t)
		pid := victim.PID()
		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: p, Nth: 2, Do: faultproxy.Before(faultproxy.Freeze(t, pid))})
		k := dial(t, proxy)
		k.say([]string{"INCR", p + "a"})
		require.Equal(t, int64(1), k.hear())
		k.say([]string{"INCR", p + "a"})
		k.requireSilence() // a server that was still stopping did not receive it
		require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
		require.Equal(t, int64(2), k.hear())
	})
	t.Run("a_killed_process_is_gone_before_the_frame_goes_on_before_its_parent_waits_for_it", func(t *testing.T) {
		t.Parallel()
		proxy, p := faultproxy.New(t, server.Addr()), drivertest.Prefix(t)
		cmd := sleeper(t)
		kill := faultproxy.Kill(t, cmd.Process.Pid)
		proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p, Nth: 1, Do: faultproxy.Before(kill)})
		k := dial(t, proxy)
		k.say([]string{"INCR", p + "a"})
		require.Equal(t, int64(1), k.hear())
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil)
		require.NoError(t, err)
		require.Equal(t, cmd.Process.Pid, ended, "it has ended by now")
		require.Equal(t, syscall.SIGKILL, status.Signal())
	})
	t.Run("the_server_itself_dies_with_the_reply_on_its_way", func(t *testing.T) {
		t.Parallel()
		victim := drivertest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		proxy, p := faultproxy.New(t, victim.Addr()), drivertest.Prefix(t)
		proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p, Nth: 1, Do: faultproxy.Before(faultproxy.Kill(t, victim.PID()))})
		k := dial(t, proxy)
		k.say([]string{"INCR", p + "a"})
		require.Equal(t, int64(1), k.hear(), "said before it died")
		k.requireClosed()
		victim.Restart(t)
		k = dial(t, proxy)
		k.say([]string{"GET", p + "a"})
		require.Equal(t, "1", k.hear())
	})
}
