package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// unique pushes a job that holds the lock of digest, or is refused, and answers who has it then.
func (w *world) unique(digest, jid string, hold time.Duration) (holder string) {
	w.Helper()
	push := w.keys.PushUnique(nil, []lua.NewJob{{
		Queue: "q", Job: jid,
		Lock: &lua.Lock{Digest: digest, Owner: lua.OwnerOf(jid, "Report"), Hold: hold},
	}})
	answer, err := push.Do(w.Context(), w.driver)
	require.NoError(w, err)
	return answer.Holders[0]
}

func (w *world) locks() []UniqueLock {
	w.Helper()
	var all []UniqueLock
	for lock, err := range w.inspector.Locks(w.Context()) {
		require.NoError(w, err)
		all = append(all, lock)
	}
	return all
}

func TestLocks(t *testing.T) {
	promises(t, map[string]func(w *world){
		"are shown with who holds them, for how long, and until when": func(w *world) {
			require.Empty(w, w.locks())
			w.unique("later", "b", 2*time.Hour)
			w.unique("sooner", "a", time.Hour)
			require.Equal(w, "a", w.unique("sooner", "c", time.Hour))
			w.do("SETRANGE", w.keys.Lock("later"), "0", "s")
			w.unique("later", "d", time.Hour)
			locks := w.locks()
			require.Len(w, locks, 2)
			for i, ttl := range []time.Duration{time.Hour, 2 * time.Hour} {
				require.InDelta(w, ttl.Seconds(), locks[i].TTL.Seconds(), 60)
				require.WithinRange(w, locks[i].TakenAt, time.Now().Add(-time.Minute), time.Now().Add(time.Second))
				require.Less(w, locks[i].Age.Duration, time.Minute)
				locks[i].TTL, locks[i].Age, locks[i].TakenAt = Seconds{}, Seconds{}, time.Time{}
			}
			require.Equal(w, []UniqueLock{
				{Digest: "sooner", JID: "a", Class: "Report"}, {Digest: "later", JID: "b", Class: "Report", Started: true, Dirty: true},
			}, locks)
			require.Equal(w, int64(2), w.status().Duplicates)
		},
		"are found by the job that would be pushed": func(w *world) {
			rule := dedup.Rule{Until: dedup.UntilExecuting}
			lock, held, err := w.inspector.LockOf(w.Context(), rule, "Report", "q", `[1, "a"]`)
			require.NoError(w, err)
			require.False(w, held)
			require.Equal(w, UniqueLock{Digest: lock.Digest}, lock)
			w.unique(lock.Digest, "b", time.Hour)
			for args, want := range map[string]bool{`[1.0,"a"]`: true, `[2,"a"]`: false} {
				lock, held, err = w.inspector.LockOf(w.Context(), rule, "Report", "other", args)
				require.NoError(w, err)
				require.Equal(w, want, held)
				require.Equal(w, want, lock.JID == "b")
			}
			_, _, err = w.inspector.LockOf(w.Context(), dedup.Rule{}, "Report", "q", "[]")
			require.Error(w, err)
			_, _, err = w.inspector.LockOf(w.Context(), rule, "Report", "q", "nonsense")
			require.Error(w, err)
		},
		"of a key are found by it, and stay until they expire": func(w *world) {
			lock, held, err := w.inspector.LockOfKey(w.Context(), "evt_1")
			require.NoError(w, err)
			require.False(w, held)
			wanted, err := dedup.KeyLock("evt_1", time.Hour, "a")
			require.NoError(w, err)
			require.Equal(w, UniqueLock{Digest: wanted.Digest}, lock)
			push := w.keys.PushUnique(nil, []lua.NewJob{{Queue: "q", Job: "a", Lock: wanted.Stored("Report")}})
			_, err = push.Do(w.Context(), w.driver)
			require.NoError(w, err)
			lock, held, err = w.inspector.LockOfKey(w.Context(), "evt_1")
			require.NoError(w, err)
			require.True(w, held)
			require.True(w, lock.Kept)
			require.Equal(w, "a", lock.JID)
			lock, held, err = w.inspector.ReleaseLock(w.Context(), lock.Digest)
			require.NoError(w, err)
			require.True(w, held)
			require.True(w, lock.Kept)
			_, held, err = w.inspector.LockOfKey(w.Context(), "evt_1")
			require.NoError(w, err)
			require.False(w, held)
			_, _, err = w.inspector.LockOfKey(w.Context(), "")
			require.ErrorContains(w, err, "the key is empty")
		},
		"are shown with what duplicates left": func(w *world) {
			w.unique("d", "a", time.Hour)
			value, _ := w.do("GET", w.keys.Lock("d")).(string)
			w.do("SET", w.keys.Lock("d"), value+"\nmain 9/0\nci 0/A", "KEEPTTL")
			require.Equal(w, map[string]string{"main": "9/0", "ci": "0/A"}, w.locks()[0].WAL)
			lock, held, err := w.inspector.ReleaseLock(w.Context(), "d")
			require.NoError(w, err)
			require.True(w, held)
			require.Equal(w, "a", lock.JID)
			require.Len(w, lock.WAL, 2)
		},
		"that have lapsed are not shown, nor what lies where a lock should": func(w *world) {
			w.unique("a", "a", time.Hour)
			w.unique("gone", "b", time.Hour)
			w.unique("odd", "c", time.Hour)
			w.do("DEL", w.keys.Lock("gone"))
			w.do("DEL", w.keys.Lock("odd"))
			w.do("RPUSH", w.keys.Lock("odd"), "x")
			w.unique("text", "d", 2*time.Hour)
			w.do("SET", w.keys.Lock("text"), "what is this")
			w.do("ZADD", w.keys.Unique(), "1", "long ago")
			locks := w.locks()
			require.Len(w, locks, 2)
			require.Equal(w, "a", locks[0].Digest)
			require.Equal(w, UniqueLock{Digest: "text"}, locks[1])
			count, err := w.inspector.LockCount(w.Context())
			require.NoError(w, err)
			require.Equal(w, int64(4), count)
		},
		"many are read page by page, each once": func(w *world) {
			seen := map[string]bool{}
			for n := range 2*lua.MaxItems + 7 {
				w.unique(fmt.Sprint(n), "a", time.Hour)
			}
			for _, lock := range w.locks() {
				require.False(w, seen[lock.Digest])
				seen[lock.Digest] = true
			}
			require.Len(w, seen, 2*lua.MaxItems+7)
		},
		"are released once, whichever job holds them": func(w *world) {
			w.unique("d", "a", time.Hour)
			lock, held, err := w.inspector.ReleaseLock(w.Context(), "d")
			require.NoError(w, err)
			require.True(w, held)
			require.Equal(w, "a", lock.JID)
			_, held, err = w.inspector.ReleaseLock(w.Context(), "d")
			require.NoError(w, err)
			require.False(w, held)
			require.Empty(w, w.unique("d", "b", time.Hour))
			w.do("DEL", w.keys.Lock("d"))
			w.do("RPUSH", w.keys.Lock("d"), "x")
			w.do("DEL", w.keys.Unique())
			w.do("SET", w.keys.Unique(), "junk")
			lock, held, err = w.inspector.ReleaseLock(w.Context(), "d")
			require.NoError(w, err, "whatever stands there")
			require.True(w, held)
			require.Equal(w, UniqueLock{Digest: "d"}, lock)
		},
	})
}

// lockOfSamples is what the samples of one class share; change says what else.
func lockOfSamples(change func(*dedup.Lock)) dedup.Lock {
	lock := dedup.Lock{Digest: strings.Repeat("a", 32), JID: "?", Until: dedup.UntilExecuted, TTL: time.Hour}
	if change != nil {
		change(&lock)
	}
	return lock
}

// uniqueSample is the payload of a unique job.
func uniqueSample(jid string, change func(*dedup.Lock), fields ...string) string {
	edit := lockOfSamples(change).Edit()
	return sample("Report", jid, append(fields, `"`+edit.Name+`":`+edit.JSON)...)
}

func TestActsAndLocks(t *testing.T) {
	digest := lockOfSamples(nil).Digest
	again := func(l *dedup.Lock) { l.Rerun = true }
	promises(t, map[string]func(w *world){
		"what is deleted or killed anywhere frees its lock": func(w *world) {
			for home, put := range map[Home]func(payload string){
				Retries():    func(payload string) { w.fill(w.keys.Retry(), 4e9, payload) },
				Scheduled():  func(payload string) { w.fill(w.keys.Schedule(), 4e9, payload) },
				Waiting("q"): func(payload string) { w.do("LPUSH", w.keys.Queue("q"), payload) },
				Quarantined("q"): func(payload string) {
					w.do("LPUSH", w.keys.Quarantine("q"), payload)
				},
			} {
				for _, action := range []Action{Delete, Kill} {
					w.unique(digest, "a", time.Hour)
					w.do("DEL", w.keys.Queue("q"))
					put(uniqueSample("a", nil))
					put(sample("Report", "plain"))
					require.Equal(w, ActCounts{Moved: 2}, w.act(home, action, Selection{All: true}), "%s in %s", action, home)
					require.Empty(w, w.locks(), "%s in %s", action, home)
				}
			}
			require.Len(w, w.set(w.keys.Dead()), 2, "the same bytes each time")
		},
		"only the job's own lock is released, and not by a copy": func(w *world) {
			w.unique(digest, "b", time.Hour)
			w.fill(w.keys.Retry(), 4e9, uniqueSample("a", nil))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Retries(), Delete, Selection{IDs: []string{"a"}}))
			require.Len(w, w.locks(), 1)
		},
		"one that promised a duplicate one more run is followed by that": func(w *world) {
			for _, action := range []Action{Delete, Kill} {
				w.unique(digest, "a", time.Hour)
				w.do("SETRANGE", w.keys.Lock(digest), "0", "s")
				require.Equal(w, "a", w.unique(digest, "b", time.Hour))
				w.do("DEL", w.keys.Queue("q"))
				w.fill(w.keys.Retry(), 4e9, uniqueSample("a", again, `"retry_count":3`, `"error_message":"x"`))
				require.Equal(w, ActCounts{Moved: 1}, w.act(Retries(), action, Selection{All: true}))
				waiting := w.list(w.keys.Queue("q"))
				require.Len(w, waiting, 1)
				rerun, err := job.Parse(waiting[0])
				require.NoError(w, err)
				require.Equal(w, `[1.0,9007199254740993,{"z":[],"a":{}}]`, rerun.ArgsJSON())
				require.NotContains(w, waiting[0], "retry_count")
				require.NotContains(w, waiting[0], "error_message")
				locks := w.locks()
				require.Len(w, locks, 1)
				require.Equal(w, rerun.JID(), locks[0].JID)
				require.NotEqual(w, "a", rerun.JID())
				require.Equal(w, ActCounts{Moved: 1}, w.act(Waiting("q"), Delete, Selection{All: true}))
				require.Empty(w, w.locks())
				require.Empty(w, w.list(w.keys.Queue("q")), "once")
			}
		},
		"a failed job that is retried keeps its lock": func(w *world) {
			w.unique(digest, "a", time.Hour)
			w.do("SETRANGE", w.keys.Lock(digest), "0", "s")
			w.fill(w.keys.Retry(), 4e9, uniqueSample("a", nil))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Retries(), Retry, Selection{All: true}))
			require.True(w, w.locks()[0].Started)
		},
		"one whose lock has lapsed is retried without": func(w *world) {
			w.unique(digest, "b", time.Hour)
			w.fill(w.keys.Retry(), 4e9, uniqueSample("a", nil))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Retries(), Retry, Selection{All: true}))
			require.Equal(w, "b", w.locks()[0].JID)
		},
		"a scheduled job takes its lock if that is free, and runs in any case": func(w *world) {
			w.fill(w.keys.Schedule(), 4e9, uniqueSample("a", nil), uniqueSample("b", nil))
			require.Equal(w, ActCounts{Moved: 2}, w.act(Scheduled(), Retry, Selection{All: true}))
			require.Equal(w, "a", w.locks()[0].JID)
		},
		"a dead job takes its lock again, or stays and the reason names the holder": func(w *world) {
			w.fill(w.keys.Dead(), 1e9, uniqueSample("a", nil), sample("Report", "plain"), uniqueSample("b", func(l *dedup.Lock) { l.Until = dedup.UntilExecuting }))
			counts := w.act(Dead(), Retry, Selection{IDs: []string{"a", "b", "plain"}})
			require.Equal(w, ActCounts{Moved: 2, Refused: 1, Problems: []string{"b: it is a duplicate of a, which has the lock"}}, counts)
			require.Len(w, w.set(w.keys.Dead()), 1)
			require.Equal(w, "a", w.locks()[0].JID)
			require.Positive(w, w.locks()[0].TTL.Duration)
			require.Len(w, w.list(w.keys.Queue("q")), 2)
			_, _, err := w.inspector.ReleaseLock(w.Context(), digest)
			require.NoError(w, err)
			require.Equal(w, ActCounts{Moved: 1}, w.act(Dead(), Retry, Selection{All: true}))
			require.Equal(w, "b", w.locks()[0].JID)
		},
		"a dead one that was marked, not refused, runs beside the others": func(w *world) {
			w.unique(digest, "b", time.Hour)
			w.fill(w.keys.Dead(), 1e9, uniqueSample("a", nil, `"duplicate-of":"b"`))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Dead(), Retry, Selection{All: true}))
			require.Equal(w, "b", w.locks()[0].JID)
		},
		"a dead job of a class that stores duplicates is retried at once, marked or not": func(w *world) {
			w.unique(digest, "b", time.Hour)
			marks := func(l *dedup.Lock) { l.Mark = true }
			w.fill(w.keys.Dead(), 1e9, uniqueSample("a", marks), uniqueSample("old", nil), uniqueSample("c", marks, `"duplicate-of":"b"`))
			counts := w.act(Dead(), Retry, Selection{All: true})
			require.Equal(w, ActCounts{Moved: 2, Refused: 1, Problems: []string{"old: it is a duplicate of b, which has the lock"}}, counts)
			require.Equal(w, "b", w.locks()[0].JID)
		},
		"of many of one kind one is brought back, and all others stay": func(w *world) {
			for n := range lua.MaxItems + 20 {
				w.fill(w.keys.Dead(), 1e9+float64(n), uniqueSample(fmt.Sprintf("%03d", n), nil))
			}
			counts := w.act(Dead(), Retry, Selection{All: true})
			require.Equal(w, 1, counts.Moved)
			require.Equal(w, lua.MaxItems+19, counts.Refused)
			require.Len(w, w.set(w.keys.Dead()), lua.MaxItems+19)
		},
		"a lock that cannot be read is none": func(w *world) {
			w.fill(w.keys.Retry(), 4e9, sample("Report", "a", `"belay_unique":{"digest":"x"}`))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Retries(), Delete, Selection{All: true}))
		},
	})
}
