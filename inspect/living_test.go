package inspect

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLiving(t *testing.T) {
	lease := func(ttl time.Duration) string { return strconv.FormatInt(time.Now().Add(ttl).UnixMilli(), 10) }
	sizes := func(w *world) Status {
		s, err := w.inspector.Sizes(w.Context())
		require.NoError(w, err)
		return s
	}
	promises(t, map[string]func(w *world){
		"counts no process that was killed": func(w *world) {
			living := func() int {
				count, err := w.inspector.Living(w.Context(), sizes(w))
				require.NoError(w, err)
				return count
			}
			require.Zero(w, living())
			for n, identity := range []string{"h:1:aa", "h:2:bb", "ruby:1:cc", "ruby:2:dd"} {
				w.do("SADD", w.keys.Processes(), identity)
				w.do("HSET", w.keys.Process(identity), "info", "{}", "busy", "0")
				if n < 2 {
					w.do("ZADD", w.keys.Alive(), lease(time.Hour), identity)
				}
			}
			w.do("ZADD", w.keys.Alive(), lease(time.Hour), "h:3:ee") // it has no process record yet
			require.Equal(w, 5, living())
			// Without a living worker the list of processes stays as it is. Of a process of Sidekiq the hash expires.
			w.do("ZADD", w.keys.Alive(), lease(-time.Second), "h:1:aa", lease(-time.Hour), "h:2:bb")
			w.do("DEL", w.keys.Process("ruby:2:dd"))
			require.Equal(w, 2, living())
			w.do("ZADD", w.keys.Alive(), lease(-time.Second), "h:3:ee")
			w.do("DEL", w.keys.Process("ruby:1:cc"))
			require.Zero(w, living())
			require.EqualValues(w, 4, w.status().ProcessCount, "as Sidekiq's tools count")
		},
		"reads a few numbers while all processes live": func(w *world) {
			for n := range maxShown {
				identity := fmt.Sprint("h:", n, ":aa")
				w.do("SADD", w.keys.Processes(), identity)
				w.do("ZADD", w.keys.Alive(), lease(time.Hour), identity)
			}
			client := &carrying{Client: w.driver}
			count, err := w.inspectorOf(client).Living(w.Context(), sizes(w))
			require.NoError(w, err)
			require.Equal(w, maxShown, count)
			require.Less(w, client.bytes, 100, "each worker of a fleet asks at each scrape")
		},
		"needs no names of processes from Sizes": func(w *world) {
			for n := range maxShown {
				identity := fmt.Sprint("h:", n, ":aa")
				w.do("SADD", w.keys.Processes(), identity)
				w.do("ZADD", w.keys.Alive(), lease(time.Hour), identity)
			}
			client := &carrying{Client: w.driver}
			s, err := w.inspectorOf(client).Sizes(w.Context())
			require.NoError(w, err)
			require.EqualValues(w, maxShown, s.ProcessCount)
			require.Less(w, client.bytes, maxShown, "a name has several bytes")
		},
		"counts large fleets": func(w *world) {
			alive := []string{"ZADD", w.keys.Alive()}
			for n := range maxShown + 7 {
				alive = append(alive, lease(time.Hour), fmt.Sprint("h:", n, ":aa"), lease(-time.Hour), fmt.Sprint("h:", n, ":bb"))
			}
			w.do(alive...)
			count, err := w.inspector.Living(w.Context(), sizes(w))
			require.NoError(w, err)
			require.Equal(w, maxShown+7, count)
		},
		"fails if it cannot count": func(w *world) {
			before := sizes(w)
			w.do("SET", w.keys.Alive(), "x")
			for _, s := range []Status{before, sizes(w)} {
				_, err := w.inspector.Living(w.Context(), s)
				require.ErrorContains(w, err, "count the living processes: alive: WRONGTYPE")
			}
			_, err := w.inspectorOf(noServer{w.driver}).Living(w.Context(), before)
			require.ErrorContains(w, err, "connection refused")
		},
	})
}
