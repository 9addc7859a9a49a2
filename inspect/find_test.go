package inspect

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

func sought(jid, more string) string {
	return fmt.Sprintf(`{"class":"A","jid":%q,"queue":"mail","args":[1.0]%s}`, jid, more)
}

func TestFindReturnsWhereAJobIs(t *testing.T) {
	promises(t, map[string]func(w *world){
		"whatever place it is in": func(w *world) {
			find := func(jid string) Found {
				found, err := w.inspector.Find(w.Context(), jid, nil)
				require.NoError(w, err)
				require.Empty(w, found.Unseen)
				require.Equal(w, jid, found.JID)
				return found
			}
			const enqueued = 1_700_000_000
			now := time.Now().Unix()
			for n := range 300 { // more than one page, on either side
				w.do("LPUSH", w.keys.Queue("mail"), sought(fmt.Sprintf("before%d", n), ""))
			}
			w.do("LPUSH", w.keys.Queue("mail"), sought("waits", `,"enqueued_at":1700000000.5`))
			for n := range 300 {
				w.do("LPUSH", w.keys.Queue("mail"), sought(fmt.Sprintf("after%d", n), ""))
			}
			w.do("SADD", w.keys.Queues(), "mail", "other", "empty")
			w.do("LPUSH", w.keys.Quarantine("other"), sought("alone", fmt.Sprintf(`,"interrupted_count":2,"interrupted_at":%d`, enqueued)))
			w.do("ZADD", w.keys.Schedule(), strconv.FormatInt(now+3600, 10), sought("later", `,"created_at":1700000000.0`))
			w.do("ZADD", w.keys.Retry(), strconv.FormatInt(now+60, 10), sought("failed", `,"failed_at":1690000000.0,"retried_at":1700000000.0`))
			w.do("ZADD", w.keys.Dead(), strconv.Itoa(enqueued), sought("dead", ""), strconv.Itoa(enqueued+1), "garbage")
			for _, identity := range []string{"h:1:aa", "h:2:bb"} {
				_, err := w.keys.Register(identity, lua.Record{Queues: []string{"mail", "other"}, Beat: time.Second, TTL: time.Minute}).Do(w.Context(), w.driver)
				require.NoError(w, err)
			}
			w.do("LPUSH", w.keys.Working("other", "h:2:bb"), sought("runs", ""))
			w.do("HSET", w.keys.Work("h:2:bb"), "t1", fmt.Sprintf(`{"queue":"other","run_at":%d,"payload":%q}`, enqueued, sought("runs", "")))
			w.do("LPUSH", w.keys.QuarantineRun("h:1:aa"), sought("by itself", ""))
			w.do("ZADD", w.keys.Alive(), "1", "h:1:aa")
			w.do("SADD", w.keys.Processes(), "ruby:1:cc", "h:2:bb")
			w.do("HSET", w.keys.Process("ruby:1:cc"), "info", `{"hostname":"ruby"}`, "busy", "1")
			w.do("HSET", w.keys.Work("ruby:1:cc"), "t1", fmt.Sprintf(`{"queue":"mail","run_at":%d,"payload":%q}`, enqueued, sought("in ruby", "")))

			at := time.Unix(enqueued, 0)
			found := find("waits")
			require.Equal(w, Found{Place: PlaceQueue, Queue: "mail", Class: "A"}, Found{Place: found.Place, Queue: found.Queue, Class: found.Class})
			require.WithinDuration(w, at, found.Since, time.Second)
			require.Greater(w, found.Looked, 300)
			require.JSONEq(w, "[1.0]", string(found.Entry.Args))
			found = find("alone")
			require.Equal(w, PlaceQuarantined, found.Place)
			require.Equal(w, "other", found.Queue)
			require.WithinDuration(w, at, found.Since, time.Second)
			found = find("later")
			require.Equal(w, PlaceScheduled, found.Place)
			require.WithinDuration(w, at, found.Since, time.Second)
			require.Equal(w, now+3600, found.At.Unix())
			found = find("failed")
			require.Equal(w, PlaceRetry, found.Place)
			require.WithinDuration(w, at, found.Since, time.Second)
			require.Equal(w, now+60, found.At.Unix())
			found = find("dead")
			require.Equal(w, PlaceDead, found.Place)
			require.WithinDuration(w, at, found.Since, time.Second)
			require.Equal(w, PlaceDead, find(unreadableID("garbage")).Place)
			found = find("runs")
			require.Equal(w, PlaceRunning, found.Place)
			require.Equal(w, []string{"h:2:bb", "alive", "other"}, []string{found.Process, string(found.State), found.Queue})
			require.WithinDuration(w, at, found.Since, time.Second)
			found = find("by itself")
			require.Equal(w, PlaceRunning, found.Place)
			require.Equal(w, []string{"h:1:aa", "lapsed", "mail"}, []string{found.Process, string(found.State), found.Queue})
			found = find("in ruby")
			require.Equal(w, PlaceRunning, found.Place)
			require.Equal(w, "ruby:1:cc", found.Process)
			for jid, holder := range map[string][2]string{"runs": {"h:2:bb", "other"}, "by itself": {"h:1:aa", "mail"}, "in ruby": {"ruby:1:cc", "mail"}} {
				found, held, err := w.inspector.Held(w.Context(), holder[0], holder[1], jid)
				require.NoError(w, err)
				require.True(w, held, jid)
				require.Equal(w, find(jid).Place, found.Place)
				require.Equal(w, holder[0], found.Process)
				_, held, err = w.inspector.Held(w.Context(), "h:9:zz", holder[1], jid)
				require.NoError(w, err)
				require.False(w, held, "another process does not hold %s", jid)
			}
			_, held, err := w.inspector.Held(w.Context(), "h:2:bb", "other", "failed")
			require.NoError(w, err)
			require.False(w, held, "it waits for a retry")
			found = find("nowhere")
			require.Equal(w, PlaceNotFound, found.Place)
			require.GreaterOrEqual(w, found.Looked, 2*606, "it has looked twice")
		},
		"also when it says not all was looked at": func(w *world) {
			w.do("SADD", w.keys.Queues(), "odd")
			w.do("SET", w.keys.Queue("odd"), "x")
			found, err := w.inspector.Find(w.Context(), "nowhere", nil)
			require.NoError(w, err)
			require.Equal(w, PlaceNotFound, found.Place)
			require.Equal(w, "queue odd is not a list", found.Unseen)
			late, cancel := context.WithTimeout(w.Context(), -1)
			defer cancel()
			found, err = w.inspector.Find(late, "nowhere", nil)
			require.NoError(w, err)
			require.Contains(w, found.Unseen, "it took too long")
		},
		"though it moves against the order of the look": func(w *world) {
			w.do("SADD", w.keys.Queues(), "mail")
			for n := range 3 {
				w.do("LPUSH", w.keys.Queue("mail"), sought(fmt.Sprintf("other%d", n), ""))
			}
			w.do("ZADD", w.keys.Retry(), "1", sought("moves", ""))
			moved := false
			mover := &betweenCalls{Client: w.driver, after: func(call driver.Call) {
				if !moved && len(call.Keys) == 1 && call.Keys[0] == w.keys.Queue("mail") { // its queue has been looked through
					moved = true
					w.do("ZREM", w.keys.Retry(), sought("moves", ""))
					w.do("LPUSH", w.keys.Queue("mail"), sought("moves", ""))
				}
			}}
			inspector := w.inspectorOf(mover)
			found, err := inspector.Find(w.Context(), "moves", nil)
			require.NoError(w, err)
			require.True(w, moved)
			require.Equal(w, PlaceQueue, found.Place)
		},
	})
}

// betweenCalls does something after each call of a client.
type betweenCalls struct {
	driver.Client
	after func(driver.Call)
}

func (b *betweenCalls) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	replies := b.Client.Do(ctx, calls...)
	for _, call := range calls {
		b.after(call)
	}
	return replies
}
