package lua

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// samples reads all samples, the oldest first.
func (w *world) samples() (samples []Sample) {
	w.Helper()
	for _, entry := range ask(w, w.keys.Page(w.keys.Samples(), OrderLowest, 0, MaxItems, MaxBytes)).Entries {
		s, ok := SampleOf(entry)
		require.True(w, ok, entry.Bytes)
		samples = append(samples, s)
	}
	return samples
}

func TestSamples(t *testing.T) {
	first := Sample{Processed: 7, Failed: 2, Queues: []QueueSample{{"mail <&>", 3, 1500 * time.Millisecond}, {"a\"b", 0, 0}}}
	// older makes the samples that are there older.
	older := func(w *world, by time.Duration) {
		for _, member := range w.sorted(w.keys.Samples()) {
			w.redis("ZINCRBY", w.keys.Samples(), strconv.FormatFloat(-by.Seconds(), 'f', -1, 64), member)
		}
	}
	keep(t,
		promise{"are_read_as_they_were_added", func(w *world) {
			require.True(w, ask(w, w.keys.AddSample(first)))
			read := w.samples()
			require.Len(w, read, 1)
			require.WithinDuration(w, time.Now(), read[0].At, time.Minute)
			read[0].At = time.Time{}
			require.Equal(w, first, read[0])
		}},
		promise{"of_a_minute_are_one_whichever_process_polls", func(w *world) {
			require.True(w, ask(w, w.keys.AddSample(first)))
			w.unchanged(func() { require.False(w, ask(w, w.keys.AddSample(first))) })
			older(w, SampleEvery)
			require.True(w, ask(w, w.keys.AddSample(first)), "the same figures are another sample")
			require.Len(w, w.samples(), 2)
		}},
		promise{"from_before_the_clock_was_set_back_stop_no_others", func(w *world) {
			require.True(w, ask(w, w.keys.AddSample(first)))
			older(w, -time.Hour)
			require.True(w, ask(w, w.keys.AddSample(first)))
		}},
		promise{"are_those_of_a_day_and_expire", func(w *world) {
			most := int(KeepSamples / SampleEvery)
			for page := 0; page < most; page += 240 {
				words := []string{"ZADD", w.keys.Samples()}
				for n := page; n < page+240; n++ {
					words = append(words, strconv.Itoa(n+1), strconv.Itoa(n+1)+` {"p":1}`)
				}
				w.redis(words...)
			}
			require.True(w, ask(w, w.keys.AddSample(first)))
			require.Equal(w, most, w.number("ZCARD", w.keys.Samples()))
			require.Equal(w, `2 {"p":1}`, w.sorted(w.keys.Samples())[0], "the oldest is gone")
			require.InDelta(w, KeepSamples.Seconds(), w.number("TTL", w.keys.Samples()), 60)
		}},
		promise{"are_not_written_over_another_type", func(w *world) {
			w.redis("SET", w.keys.Samples(), "x")
			refused(w, "WRONGTYPE", w.keys.AddSample(first))
		}},
	)
}

func TestASampleOfAnotherProgramIsLeftOut(t *testing.T) {
	t.Parallel()
	many := `1.5 {"q":[` + strings.Repeat(`["q",1,1],`, MaxSampled) + `["q",1,1]]}`
	for _, bytes := range []string{"", "x", "1.5", `{"p":1}`, `1.5 []`, `x {"p":1}`, `1.5 {"q":[7]}`, `1.5 {"q":[["q","1",1]]}`, many} {
		_, ok := SampleOf(Entry{Bytes: bytes})
		require.False(t, ok, bytes)
	}
}
