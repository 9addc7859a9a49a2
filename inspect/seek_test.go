package inspect

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A carrying client counts the bytes of all replies.
type carrying struct {
	driver.Client
	bytes int
}

func (c *carrying) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	replies := c.Client.Do(ctx, calls...)
	for _, reply := range replies {
		c.bytes += driver.Size(reply.Value)
	}
	return replies
}

func TestASearchByJID(t *testing.T) {
	promises(t, map[string]func(w *world){
		"carries no other jobs": func(w *world) {
			var all []string
			for n := range 20_000 {
				all = append(all, sample("A", strconv.Itoa(n)))
			}
			w.do("SADD", w.keys.Queues(), "q")
			w.push(w.keys.Queue("q"), all...)
			w.fill(w.keys.Dead(), 1, all[:300]...)
			client := &carrying{Client: w.driver}
			w.inspector = w.inspectorOf(client)
			require.Equal(w, CancelMarked, w.cancel("finished")["finished"].Result)
			found, err := w.inspector.Find(w.Context(), "nowhere", nil)
			require.NoError(w, err)
			require.Equal(w, Found{JID: "nowhere", Place: PlaceNotFound, Looked: 2 * 20_300}, found)
			require.Less(w, client.bytes, len(all[0])*len(all)/20, "four searches carry less than a twentieth of one")
		},
		"finds each job in lists and sets, while workers take what was passed": func(w *world) {
			const jobs = 30_000
			var all, sought []string
			want := map[string]bool{}
			for n := range jobs {
				all = append(all, sample("A", strconv.Itoa(n)))
			}
			for _, n := range []int{11_000, 11_001, 12_345, 16_383, 16_384, 20_479, 20_480, 29_998, 29_999} {
				sought = append(sought, strconv.Itoa(n))
				want[strconv.Itoa(n)] = true
			}
			w.push(w.keys.Queue("q"), all...)
			taken := 0
			w.inspector = w.inspectorOf(&betweenCalls{Client: w.driver, after: func(call driver.Call) {
				if call.Name() == "page" && taken < 10_000 {
					taken += 1000
					w.do("RPOP", w.keys.Queue("q"), "1000")
				}
			}})
			counts := w.act(Waiting("q"), Delete, Selection{IDs: sought})
			require.Equal(w, ActCounts{Moved: len(sought)}, counts)
			require.Positive(w, taken)
			left := w.list(w.keys.Queue("q"))
			require.Len(w, left, jobs-taken-len(sought))
			w.inspector = w.inspectorOf(w.driver)
			w.fill(w.keys.Retry(), 1, all[10_000:21_000]...)
			require.Equal(w, ActCounts{Moved: 7}, w.act(Retries(), Delete, Selection{IDs: sought[:7]}))
			require.Equal(w, int64(11_000-7), w.do("ZCARD", w.keys.Retry()))
		},
		"reads a jid as JSON has it": func(w *world) {
			w.do("SADD", w.keys.Queues(), "q")
			for n, payload := range []string{
				`{"class":"A","args":[{"jid":"x"}],"jid" : "j0"}`, `{ "jid" :  "j1","class":"A","args":["jid\"","jid"]}`,
				`{"class":"A","\u006aid":"j2","args":[]}`, `{"jid":"j3","class":"A","args":["\u00e9\\jid\""]}`,
				`{"class":"A","args":[],"jid":"j\u00e94"}`, `{"class":"A","args":[],"jid":"!5"}`,
			} {
				w.do("LPUSH", w.keys.Queue("q"), payload)
				jid := []string{"j0", "j1", "j2", "j3", "jé4", "!5"}[n]
				found, err := w.inspector.Find(w.Context(), jid, nil)
				require.NoError(w, err)
				require.Equal(w, PlaceQueue, found.Place, payload)
			}
			w.do("LPUSH", w.keys.Queue("q"), "garbage")
			found, err := w.inspector.Find(w.Context(), unreadableID("garbage"), nil)
			require.NoError(w, err)
			require.Equal(w, PlaceQueue, found.Place)
			found, err = w.inspector.Find(w.Context(), "x", nil)
			require.NoError(w, err)
			require.Equal(w, PlaceNotFound, found.Place, "it is an argument")
		},
		"continues where its cursor says": func(w *world) {
			w.do("SADD", w.keys.Queues(), "q")
			for n := range 10_000 {
				jid := []string{"other" + strconv.Itoa(n), "same"}[n%1000/999]
				w.do("LPUSH", w.keys.Queue("q"), sample("A", jid, fmt.Sprintf(`"n":%d`, n)))
				w.do("ZADD", w.keys.Retry(), strconv.Itoa(n/3000), sample("A", jid, fmt.Sprintf(`"n":%d`, n)))
			}
			require.Len(w, w.search(Query{IDs: []string{"same"}, Limit: 1}), 20)
			require.Len(w, w.search(Query{IDs: []string{"same"}, Time: 1}), 20)
		},
	})
}

func TestSeekable(t *testing.T) {
	t.Parallel()
	for jid, want := range map[string]bool{"0a1b2c": true, "report-42_x.y:z": true, "": false, "é": false, `a"b`: false, "a/b": false, "a b": false} {
		require.Equal(t, want, lua.Seekable([]string{"a", jid}), jid)
	}
	require.False(t, lua.Seekable(nil))
}
