package gitlab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

func TestReturnFromGitLab(t *testing.T) {
	late, dead := "late:1:aa", "dead:1:aa"
	hold := func(w *world) {
		for _, process := range []string{late, dead} {
			w.do("LPUSH", w.held("mail", process).key, `{"class":"A","jid":"`+process+`","args":[],"queue":"mail"}`)
		}
	}
	promises(t, realServers(), map[string]func(w *world){
		"a process whose heartbeat comes back after the first look keeps its jobs": func(w *world) {
			hold(w)
			result, err := Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: -1, Found: func(look Lists) {
				require.Equal(w, 2, look.Jobs)
				w.do("SET", w.keys.heartbeat(late), "1", "EX", "60")
			}})
			require.NoError(w, err)
			require.Equal(w, Result{Recovered: 1, Lists: 1, Alive: 1, Held: 1}, result)
			require.Len(w, w.list(w.held("mail", late).key), 1)
			require.Equal(w, []string{`{"class":"A","jid":"dead:1:aa","args":[],"queue":"mail","interrupted_count":1}`}, w.list(w.keys.Queue("mail")))
		},
		"nothing moves before Doubt has passed": func(w *world) {
			hold(w)
			began := time.Now()
			result, err := Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: 1500 * time.Millisecond, Found: func(Lists) {
				require.Len(w, w.list(w.held("mail", dead).key), 1)
			}})
			require.NoError(w, err)
			require.GreaterOrEqual(w, time.Since(began), 1500*time.Millisecond)
			require.Equal(w, 2, result.Recovered)
		},
		"nothing moves at once by default: a living process may have been unable to send its heartbeat": func(w *world) {
			hold(w)
			ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := Return(ctx, Config{Client: w.client, Prefix: w.prefix})
			require.ErrorIs(w, err, context.DeadlineExceeded)
			require.Len(w, w.list(w.held("mail", dead).key), 1)
		},
		"the end of tracked jobs that are too large, unreadable or interrupted too often is announced": func(w *world) {
			ended := w.messages(w.keys.Ended())
			for jid, args := range map[string]string{"large": `"` + strings.Repeat("x", 3<<20) + `"`, "unreadable": "\"\xff\"", "interrupted": "1"} {
				w.do("LPUSH", w.held("mail", dead).key, `{"belay_track_ms":60000,"args":[`+args+`],"class":"A","jid":"`+jid+
					`","queue":"mail","interrupted_count":2}`)
			}
			result, err := Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: -1})
			require.NoError(w, err)
			require.Equal(w, Result{Recovered: 3, Dead: 3, Lists: 1}, result)
			jids := make(map[string]bool) // an announcement whose script had to be loaded comes twice
			for len(jids) < 3 {
				select {
				case message := <-ended:
					for _, jid := range lua.EndedOf(message) {
						jids[jid] = true
					}
				case <-time.After(20 * time.Second):
					require.FailNow(w, "the end of a job was not announced", "only of %v", jids)
				}
			}
			require.Equal(w, map[string]bool{"large": true, "unreadable": true, "interrupted": true}, jids)
			for jid := range jids {
				tracked, err := w.keys.ReadTracked(jid).Do(w.Context(), w.client)
				require.NoError(w, err)
				require.Equal(w, lua.TrackDead, tracked.State, jid)
			}
		},
		"a job that dies of interruptions is logged, also one that holds an unreadable text": func(w *world) {
			kept, err := job.Parse(job.KeepUnreadable("garbage", "mail", errors.New("no JSON"), time.Now(), job.Seconds))
			require.NoError(w, err)
			w.do("LPUSH", w.held("mail", dead).key, kept.Patch(job.SetInt("interrupted_count", 2)))
			log := &drivertest.Buffer{}
			_, err = Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: -1, Log: slog.New(logbook.JSON(log, slog.LevelDebug))})
			require.NoError(w, err)
			require.Regexp(w, `"interruptions":3,"time":"[^"]+","message":"moved to the dead set: too many interruptions in Ruby processes"`, log.String())
		},
		"the dead set has the limits of the workers": func(w *world) {
			for _, jid := range []string{"1", "2", "3"} {
				w.do("LPUSH", w.held("mail", dead).key, `{"class":"A","jid":"`+jid+`","args":[],"queue":"mail","interrupted_count":2}`)
			}
			result, err := Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: -1, DeadLimits: lua.DeadLimits{Limit: 2}})
			require.NoError(w, err)
			require.Equal(w, Result{Recovered: 3, Dead: 3, Lists: 1}, result)
			require.Len(w, w.texts("ZRANGE", w.keys.Dead(), "0", "-1"), 2)
		},
		"jobs that Redis refuses to move stop no other of their list, however many they are": func(w *world) {
			payload := func(jid, more string) string {
				return `{"class":"A","jid":"` + jid + `","args":[],"queue":"mail"` + more + `}`
			}
			held := w.held("mail", dead)
			w.do("SET", w.keys.Queue("callbacks"), "no list")
			// stuck dies of its third interruption, which its batch cannot count.
			stuck := func(jid string) string {
				return payload(jid, `,"belay_batch":"b/callbacks","interrupted_count":2`)
			}
			large := `{"belay_batch":"b/callbacks","args":["` + strings.Repeat("x", 3<<20) + `"],"class":"A","jid":"large"}`
			stay := []string{stuck("oldest"), large}
			jobs := append([]string{payload("1", "")}, stay...)
			for n := range lua.MaxItems + 1 {
				stay = append(stay, stuck(fmt.Sprint("stuck", n)))
			}
			jobs = append(append(append(jobs, payload("2", "")), stay[2:]...), payload("3", ""), payload("4", ""))
			for chunk := range slices.Chunk(jobs, lua.MaxItems) {
				w.do(append([]string{"LPUSH", held.key}, chunk...)...)
			}
			result, err := Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: -1})
			require.ErrorContains(w, err, fmt.Sprintf("recover %q: %d of its jobs stay: ", held.key, len(stay)))
			require.ErrorContains(w, err, "WRONGTYPE")
			require.Equal(w, Result{Recovered: 4}, result)
			var returned []string
			for _, jid := range []string{"4", "3", "2", "1"} {
				returned = append(returned, payload(jid, `,"interrupted_count":1`))
			}
			require.Equal(w, returned, w.list(w.keys.Queue("mail")), "in their order")
			left := w.list(held.key)
			slices.Reverse(left)
			require.Equal(w, stay, left, "none is lost")

			w.do("DEL", w.keys.Queue("callbacks"))
			result, err = Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: -1})
			require.NoError(w, err)
			require.Equal(w, Result{Recovered: len(stay), Dead: len(stay), Lists: 1}, result)
		},
		"a list of large jobs stays if its process has a heartbeat at the second look": func(w *world) {
			w.do("LPUSH", w.held("mail", late).key, strings.Repeat("x", 3<<20))
			result, err := Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: -1, Found: func(Lists) {
				w.do("SET", w.keys.heartbeat(late), "1", "EX", "60")
			}})
			require.NoError(w, err)
			require.Equal(w, Result{Alive: 1, Held: 1}, result)
		},
		"without such lists it does not wait": func(w *world) {
			result, err := Return(w.Context(), Config{Client: w.client, Prefix: w.prefix, Doubt: time.Hour})
			require.NoError(w, err)
			require.Equal(w, Result{}, result)
		},
	})
}
