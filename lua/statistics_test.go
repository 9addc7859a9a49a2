package lua

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

// The names and bounds are those of Sidekiq 8.0.0 and 8.1.7, as its source writes and reads them:
// lib/sidekiq/metrics/tracking.rb ("%y%m%d|%-H:%M", the last character cut for ten minutes) and shared.rb
// ("h|#{klass}-" and "%-d-%-H:%-M", in UTC).
func TestStatisticsHaveSidekiqsNames(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("CET", 3600)
	for _, c := range []struct {
		at                      time.Time
		minute, ten, runs, wait string
	}{
		{time.Date(2025, 2, 14, 8, 43, 59, 0, time.UTC), "j|250214|8:43", "j|250214|8:4", "h|Mail::Send-14-8:43", "belay:waits|Mail::Send-14-8:43"},
		{time.Date(2025, 2, 4, 9, 3, 0, 0, berlin), "j|250204|8:03", "j|250204|8:0", "h|Mail::Send-4-8:3", "belay:waits|Mail::Send-4-8:3"},
		{time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC), "j|261231|0:00", "j|261231|0:0", "h|Mail::Send-31-0:0", "belay:waits|Mail::Send-31-0:0"},
		{time.Date(2026, 1, 1, 0, 5, 0, 0, berlin), "j|251231|23:05", "j|251231|23:0", "h|Mail::Send-31-23:5", "belay:waits|Mail::Send-31-23:5"},
	} {
		for prefix, before := range map[string]string{"": "", "app": "app:"} {
			k := NewKeys(prefix)
			require.Equal(t, before+c.minute, k.ClassMinute(c.at))
			require.Equal(t, before+c.ten, k.ClassTen(c.at))
			require.Equal(t, before+c.runs, k.RunHistogram("Mail::Send", c.at))
			require.Equal(t, before+c.wait, k.WaitHistogram("Mail::Send", c.at))
		}
	}
	require.Equal(t, "h|Ok-24-0:5", NewKeys("").RunHistogram("Ok", time.Date(2026, 11, 24, 0, 5, 0, 0, time.UTC)))
	var bounds []int
	for _, bound := range HistogramBounds {
		bounds = append(bounds, int(bound.Milliseconds()))
	}
	require.Equal(t, []int{
		20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1100, 1700, 2500, 3800, 5750, 8500, 13000, 20000, 30000, 45000, 65000, 100000, 150000, 225000, 335000,
	}, bounds)
	require.Len(t, Histogram{}, 26)
}

func TestAddFiguresWritesWhatSidekiqReads(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 2, 14, 8, 43, 59, 0, time.UTC)
	a, b := ClassFigures{Class: "A", Processed: 3, Failed: 1, Time: 1520 * time.Millisecond}, ClassFigures{Class: "B", Processed: 1, Failed: 1}
	a.Runs[0], a.Runs[11], b.Waits[1] = 1, 1, 7
	for _, g := range grounds {
		if g.fake {
			continue // it has no BITFIELD; workers then write no histograms
		}
		w := g.world(t)
		for times := range 2 {
			w.redis("PERSIST", w.keys.ClassMinute(at))
			w.addFigures(at, a, b)
			want := make(map[string]string)
			for field, n := range map[string]int{"A|p": 3, "A|f": 1, "A|ms": 1520, "B|p": 1, "B|f": 1} {
				want[field] = strconv.Itoa(n * (1 + times))
			}
			for key, keep := range map[string]int{w.keys.ClassMinute(at): 28800, w.keys.ClassTen(at): 259200} {
				require.Equal(w, want, w.hash(key))
				require.InDelta(w, keep, w.number("TTL", key), 60)
			}
			require.Equal(w, "\x00"+string(rune(1+times))+strings.Repeat("\x00", 21)+string(rune(1+times)), w.redis("GET", w.keys.RunHistogram("A", at)))
			require.Equal(w, strings.Repeat("\x00", 7)+string(rune(7*(1+times))), w.redis("GET", w.keys.WaitHistogram("B", at)))
			require.Len(w, w.everything(), 4)
			require.InDelta(w, 28800, w.number("TTL", w.keys.RunHistogram("A", at)), 60)
			require.InDelta(w, 28800, w.number("TTL", w.keys.WaitHistogram("B", at)), 60)
		}
	}
}

// Whatever is denied or in the way, the rest is written, and nothing stays for ever.
func TestNoFiguresStayForEver(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t) // the users of the shared one belong to all tests
	at := time.Now()
	figures := ClassFigures{Class: "A", Processed: 1}
	figures.Runs[0], figures.Waits[0] = 1, 1
	for _, c := range []struct{ name, damage, code, written string }{
		{"nothing", "PING", "", "j|m j|t h| belay:waits|"},
		{"EXPIRE denied", "ACL SETUSER default -expire", "NOPERM", ""},
		{"HINCRBY denied", "ACL SETUSER default -hincrby", "NOPERM", "h| belay:waits|"},
		{"BITFIELD denied", "ACL SETUSER default -bitfield", "NOPERM", "j|m j|t"},
		{"a key denied", "ACL SETUSER default resetkeys ~*:j|*", "NOPERM", ""},
		{"a list in the way", "RPUSH j|m x", "WRONGTYPE", "j|t h| belay:waits|"},
		{"text in the way", "HSET j|m A|p x", "ERR", "j|t h| belay:waits|"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, openGoredis, server.URL())
			keys := map[string]string{
				"j|m": w.keys.ClassMinute(at), "j|t": w.keys.ClassTen(at), "h|": w.keys.RunHistogram("A", at), "belay:waits|": w.keys.WaitHistogram("A", at),
			}
			words := strings.Fields(c.damage)
			for i, word := range words {
				words[i] = cmp.Or(keys[word], word)
			}
			w.redis(words...)
			reply := w.client.Do(t.Context(), w.keys.AddFigures([]ClassFigures{figures}, at))[0]
			_, err := server.Do(t.Context(), "ACL", "SETUSER", "default", "+@all", "~*")
			require.NoError(t, err)
			var refused *driver.ServerError
			if errors.As(reply.Err, &refused); c.code == "" {
				require.NoError(t, reply.Err)
			} else {
				require.NotNil(t, refused)
				require.Equal(t, c.code, refused.Code, refused.Message)
			}
			var written []string
			for _, name := range []string{"j|m", "j|t", "h|", "belay:waits|"} {
				if w.number("TTL", keys[name]) > 0 {
					written = append(written, name)
				} else if len(words) < 3 || words[1] != keys[name] {
					require.Zero(t, w.number("EXISTS", keys[name]), name)
				}
			}
			require.Equal(t, c.written, strings.Join(written, " "))
		})
	}
}

func TestHistogramsKeepTheirCounts(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for _, g := range grounds {
		if g.fake {
			continue // it has no BITFIELD; workers then write no statistics
		}
		w := g.world(t)
		even, full := ClassFigures{Class: "even"}, ClassFigures{Class: "full"}
		for i := range even.Runs {
			even.Runs[i], even.Waits[i] = uint64(i), uint64(1000*i)
		}
		full.Runs[0], full.Runs[3], full.Waits[0] = 70_000, 5, 70_000
		w.addFigures(at, even, full, even)
		w.addFigures(at, full)
		runs, waits := w.histograms("even", at, 0)
		for i := range runs {
			require.Equal(w, uint64(2*i), runs[i])
			require.Equal(w, uint64(2000*i), waits[i])
		}
		runs, waits = w.histograms("full", at, 140_010)
		require.Equal(w, uint64(140_000), runs[0], "the counter is full; the rest follows from the number of runs")
		require.Equal(w, uint64(10), runs[3])
		require.Equal(w, uint64(140_000), waits[0])
		runs, waits = w.histograms("none", at, 0)
		require.Zero(w, runs.Count()+waits.Count())
	}
}

func (w *world) addFigures(at time.Time, figures ...ClassFigures) {
	w.Helper()
	require.NoError(w, w.client.Do(w.Context(), w.keys.AddFigures(figures, at))[0].Err)
}

func (w *world) histograms(class string, at time.Time, count uint64) (runs, waits Histogram) {
	w.Helper()
	replies := w.client.Do(w.Context(), w.keys.ReadHistograms(class, at)...)
	run, _ := replies[0].Value.(string)
	wait, _ := replies[1].Value.(string)
	return RunsOf(run, count), WaitsOf(wait)
}

func TestFiguresOfQueuesAddUpAndExpire(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 2, 14, 8, 43, 59, 0, time.UTC)
	for _, g := range grounds {
		w := g.world(t)
		require.Equal(w, w.prefix+":belay:queues|250214|8:43", w.keys.QueueMinute(at))
		for range 2 {
			call := w.keys.AddQueueFigures([]QueueFigures{{"a|p", 3, 1}, {"b", 5, 0}}, at)
			require.NoError(w, w.client.Do(w.Context(), call)[0].Err)
		}
		require.Equal(w, map[string]string{"a|p|p": "6", "a|p|f": "2", "b|p": "10"}, w.hash(w.keys.QueueMinute(at)))
		require.InDelta(w, 600, w.number("TTL", w.keys.QueueMinute(at)), 60)
		require.Len(w, w.everything(), 1)
		replies := w.client.Do(w.Context(), w.keys.ReadQueueFigures([]string{"b", "a|p", "none"}, at.Add(time.Minute))...)
		require.Equal(w, []any{nil, nil, nil, nil, nil, nil}, replies[0].Value)
		require.Equal(w, []any{"10", nil, "6", "2", nil, nil}, replies[1].Value, "the minute before")
	}
}
