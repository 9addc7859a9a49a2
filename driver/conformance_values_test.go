package driver_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

var valuePromises = []promise{
	{name: "values_have_neutral_types", keep: valuesHaveNeutralShapes, memory: true},
	{name: "an_error_reply_is_a_server_error", keep: anErrorReplyIsAServerError, memory: true},
	{name: "an_error_inside_an_array_affects_only_its_own_call", keep: anErrorInsideAnArray, fake: noErrorCodes},
	{name: "replies_are_in_the_order_of_the_calls", keep: repliesStandInOrder, memory: true},
	{name: "bytes_pass_unchanged", keep: bytesPassUnchanged, memory: true},
	{name: "no_call_makes_it_panic", keep: noCallMakesItPanic, anyKind: true, memory: true},
	{name: "a_refused_call_does_not_affect_the_others", keep: anUnfitCall, memory: true},
}

func valuesHaveNeutralShapes(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	nested := driver.NewScript("nested", "#!lua\nreturn {1, 'two', {3, {ARGV[1]}, {}}, false, ''}")
	replies := client.Do(t.Context(),
		driver.Command("SET", p+"text", "value"),
		driver.Command("GET", p+"text"),
		driver.Command("GET", p+"missing"),
		driver.Command("INCRBY", p+"number", "-7"),
		driver.Command("LRANGE", p+"missing", "0", "-1"),
		driver.Command("MGET", p+"text", p+"missing"),
		driver.Call{Script: nested, Args: []string{"four"}},
		driver.Command("HSET", p+"hash", "field", "1"),
		driver.Command("HGETALL", p+"hash"),
	)
	require.Equal(t, []driver.Reply{
		{Value: "OK"},
		{Value: "value"},
		{Value: nil},
		{Value: int64(-7)},
		{Value: []any{}},
		{Value: []any{"value", nil}},
		{Value: []any{int64(1), "two", []any{int64(3), []any{"four"}, []any{}}, nil, ""}},
		{Value: int64(1)},
		{Value: []any{"field", "1"}},
	}, replies)
	require.Empty(t, client.Do(t.Context()))
}

func anErrorReplyIsAServerError(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	refusing := driver.NewScript("refusing", "#!lua\nreturn redis.error_reply('TOOLATE for that')")
	replies := client.Do(t.Context(),
		driver.Command("SET", p+"text", "value"),
		driver.Command("LPUSH", p+"text", "x"),
		driver.Command("NOSUCHCOMMAND"),
		driver.Call{Script: refusing},
		driver.Command("GET", p+"text"),
	)
	for i, code := range map[int]string{1: "WRONGTYPE", 2: "ERR", 3: "TOOLATE"} {
		var refused *driver.ServerError
		require.ErrorAs(t, replies[i].Err, &refused)
		require.Equal(t, code, refused.Code)
		require.True(t, strings.HasPrefix(refused.Message, code+" "), refused.Message)
		require.True(t, driver.Certain(refused))
		require.False(t, driver.Outage(refused))
		require.Nil(t, replies[i].Value)
	}
	require.Equal(t, driver.Reply{Value: "value"}, replies[4])
}

func anErrorInsideAnArray(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	for _, text := range []string{"OOM no room", "LOADING not yet", "READONLY not here", "MINE alone"} {
		spoilt := driver.NewScript("spoilt", "#!lua\nreturn {1, redis.error_reply(ARGV[1]), 'rest'}")
		replies := client.Do(t.Context(),
			driver.Command("SET", p+"text", text),
			driver.Call{Script: spoilt, Args: []string{text}},
			driver.Command("GET", p+"text"),
		)
		require.Equal(t, driver.NewServerError(text), replies[1].Err)
		require.Equal(t, driver.Reply{Value: text}, replies[2])
		require.Equal(t, text, get(t, client, "GET", p+"text"))
	}
}

func repliesStandInOrder(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	calls := make([]driver.Call, 2500) // more than a client moves to another connection by itself
	for i := range calls {
		calls[i] = driver.Command("RPUSH", p+"list", strconv.Itoa(i))
	}
	for i, reply := range client.Do(t.Context(), calls...) {
		require.Equal(t, driver.Reply{Value: int64(i + 1)}, reply)
	}
	require.Equal(t, "1234", get(t, client, "LINDEX", p+"list", "1234"))
}

func bytesPassUnchanged(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	echo := driver.NewScript("echo", "#!lua\nredis.call('SET', KEYS[1], ARGV[1])\nreturn {ARGV[1], redis.call('GET', KEYS[1])}")
	for _, text := range []string{
		"", " ", "\x00", "a\x00b\xff\xfe", "\r\n", "+OK\r\n", "$-1\r\n", "ok", "lost", strings.Repeat("x", 14), strings.Repeat("x", 15),
		strings.Repeat("long \x00\r\n", 700_000),
	} {
		replies := client.Do(t.Context(),
			driver.Command("SET", p+"a", text),
			driver.Command("GET", p+"a"),
			driver.Call{Script: echo, Keys: []string{p + "b"}, Args: []string{text}},
		)
		want := []any{text, []any{text, text}}
		got := []any{replies[1].Value, replies[2].Value}
		require.True(t, reflect.DeepEqual(want, got), "a text of %d bytes came back otherwise", len(text)) // megabytes: no diff
	}
}

func noCallMakesItPanic(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	for _, call := range []driver.Call{
		{}, {Args: []string{}}, driver.Command(""), driver.Command("", "x"), {Keys: []string{"k"}},
		driver.Command("SUBSCRIBE", "c"), driver.Command("ssubscribe", "c"), driver.Command("UNSUBSCRIBE"), driver.Command("MONITOR"),
		driver.Command("MULTI"), driver.Command("Select", "1"), driver.Command("CLIENT", "REPLY", "OFF"),
		driver.Command("BLMOVE", "a", "b", "LEFT", "RIGHT", "0"), driver.Command("BLPOP", "a", "0"),
	} {
		requireNotSent(t, client.Do(t.Context(), call)[0].Err)
	}

	many := driver.NewScript("many", "#!lua\nreturn {#KEYS, #ARGV}")
	keys := make([]string, 300)
	for i := range keys {
		keys[i] = p + strconv.Itoa(i) // of many slots
	}
	replies := client.Do(t.Context(),
		driver.Call{Script: many, Keys: keys, Args: keys},
		driver.Call{Script: many},
		driver.Call{Script: many, Keys: []string{"{a}1", "{b}2"}, Args: []string{""}},
		driver.Command(append([]string{"DEL"}, keys...)...),
	)
	require.Equal(t, []driver.Reply{
		{Value: []any{int64(300), int64(300)}}, {Value: []any{int64(0), int64(0)}}, {Value: []any{int64(2), int64(1)}}, {Value: int64(0)},
	}, replies)
}

func anUnfitCall(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	replies := client.Do(t.Context(), driver.Command("INCR", p+"a"), driver.Command(), driver.Command("INCR", p+"a"))
	require.Equal(t, driver.Reply{Value: int64(1)}, replies[0])
	requireNotSent(t, replies[1].Err)
	require.Equal(t, driver.Reply{Value: int64(2)}, replies[2])
}
