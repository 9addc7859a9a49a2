package driver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

var scriptPromises = []promise{
	{name: "an_unknown_script_is_loaded_and_run", keep: anUnknownScript},
	{name: "only_the_unknown_script_is_sent_again", keep: onlyTheUnknownOne},
	{name: "unknown_scripts_run_in_their_order", keep: unknownScriptsKeepOrder, memory: true},
	{name: "a_script_sent_again_by_text_is_executed_once", keep: aLostReplyByText},
	{name: "scripts_survive_a_flush", keep: scriptsSurviveAFlush, memory: true},
	{name: "a_script_that_does_not_compile_is_refused", keep: aBrokenScript, memory: true},
	{name: "script_flags_take_effect", keep: flagsHold, fake: noFlags},
}

func anUnknownScript(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	run := driver.Call{Script: counting(p, "new"), Keys: []string{p + "n"}}
	for i := range 4 {
		require.Equal(t, []driver.Reply{{Value: int64(i + 1)}}, client.Do(t.Context(), run))
	}
	lane := w.lane(t, client, 1)
	require.Equal(t, []driver.Reply{{Value: int64(5)}}, lane.Do(t.Context(), run))
	// Where "#!lua" is unknown, one EVAL finds that out and another goes without.
	require.Equal(t, map[bool]int{true: 1, false: 2}[!w.kind.fake], proxy.Count("EVAL"))
	require.Equal(t, 5, proxy.Count("EVALSHA"))
}

func onlyTheUnknownOne(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	known, unknown := counting(p, "known"), counting(p, "unknown")
	client.Do(t.Context(), driver.Call{Script: known, Keys: []string{p + "warm"}})
	before := proxy.Count("EVAL")

	replies := client.Do(t.Context(),
		driver.Call{Script: known, Keys: []string{p + "a"}},
		driver.Call{Script: unknown, Keys: []string{p + "b"}},
		driver.Command("INCR", p+"c"),
		driver.Call{Script: known, Keys: []string{p + "a"}},
		driver.Call{Script: unknown, Keys: []string{p + "d"}},
	)
	require.Equal(t, []driver.Reply{{Value: int64(1)}, {Value: int64(1)}, {Value: int64(1)}, {Value: int64(2)}, {Value: int64(1)}}, replies)
	require.Equal(t, before+2, proxy.Count("EVAL"))
	require.Equal(t, []any{"2", "1", "1", "1"}, get(t, client, "MGET", p+"a", p+"b", p+"c", p+"d"))
}

func unknownScriptsKeepOrder(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	settle := driver.NewScript("settle", "#!lua\n-- "+p+"\nredis.call('SET', KEYS[1], ARGV[1])\nreturn 'ok'")
	take := driver.NewScript("take", "#!lua\n-- "+p+"\nreturn redis.call('GET', KEYS[1])")
	replies := client.Do(t.Context(),
		driver.Call{Script: settle, Keys: []string{p + "k"}, Args: []string{"first"}},
		driver.Call{Script: take, Keys: []string{p + "k"}},
		driver.Call{Script: settle, Keys: []string{p + "k"}, Args: []string{"second"}},
		driver.Call{Script: take, Keys: []string{p + "k"}},
	)
	require.Equal(t, []driver.Reply{{Value: "ok"}, {Value: "first"}, {Value: "ok"}, {Value: "second"}}, replies)
}

func aLostReplyByText(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	client.Do(t.Context(), driver.Call{Script: counting(p, "first"), Keys: []string{p + "warm"}}) // flags are decided

	proxy.Add(faultproxy.DropReply("\r\nEVAL\r\n"))
	replies := client.Do(t.Context(),
		driver.Command("INCR", p+"a"),
		driver.Call{Script: counting(p, "second"), Keys: []string{p + "b"}},
		driver.Command("INCR", p+"c"),
	)
	require.Equal(t, driver.Reply{Value: int64(1)}, replies[0])
	requireUncertain(t, replies[1].Err)
	require.Equal(t, driver.Reply{Value: int64(1)}, replies[2])
	require.Equal(t, []any{"1", "1", "1"}, get(t, client, "MGET", p+"a", p+"b", p+"c"))
}

func scriptsSurviveAFlush(t *testing.T, w *world) {
	addr := w.addr(t)
	if !w.kind.fake && !w.memory {
		addr = drivertest.Start(t).Addr() // others' scripts would go too
	}
	client := w.open(t, addr)
	run := []driver.Call{{Script: counting("", "a"), Keys: []string{"a"}}, {Script: counting("", "b"), Keys: []string{"b"}}}
	for i := range 3 {
		require.Equal(t, []driver.Reply{{Value: int64(i + 1)}, {Value: int64(i + 1)}}, client.Do(t.Context(), run...))
		require.Equal(t, "OK", get(t, client, "SCRIPT", "FLUSH"))
	}
}

func aBrokenScript(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	broken := driver.NewScript("broken", "#!lua\nreturn +")
	sound := counting(p, "sound")
	for i := range 2 {
		replies := client.Do(t.Context(), driver.Call{Script: broken}, driver.Call{Script: sound, Keys: []string{p + "n"}})
		var refused *driver.ServerError
		require.ErrorAs(t, replies[0].Err, &refused)
		require.Equal(t, driver.Reply{Value: int64(i + 1)}, replies[1])
	}
}

func flagsHold(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	reading := driver.NewScript("reading", "#!lua flags=no-writes\nreturn redis.call('INCR', KEYS[1])")
	for range 2 {
		client.Do(t.Context(), driver.Call{Script: driver.NewScript("broken", "#!lua\nreturn +")}) // teaches nothing wrong
		var refused *driver.ServerError
		require.ErrorAs(t, client.Do(t.Context(), driver.Call{Script: reading, Keys: []string{p + "n"}})[0].Err, &refused)
		require.Contains(t, refused.Message, "read-only")
	}
	require.Nil(t, get(t, client, "GET", p+"n"))
}
