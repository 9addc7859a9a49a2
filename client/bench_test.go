package client

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
)

func BenchmarkPushMany(b *testing.B) {
	for client, open := range adapters.All {
		for name, j := range map[string]RawJob{
			"one queue":      {Args: []any{42, "template"}},
			"several queues": {Args: []any{42, "template"}, Queue: "abc"},
			"unique":         {Unique: &dedup.Rule{Until: dedup.UntilExecuting}},
		} {
			b.Run(client+"/"+name, func(b *testing.B) {
				client, err := New(open(b, drivertest.Start(b).URL()), Config{Prefix: strings.TrimSuffix(drivertest.Prefix(b), ":")})
				require.NoError(b, err)
				defer func() { require.NoError(b, client.Close()) }()
				b.ReportAllocs()
				n := 0
				_, err = client.PushMany(b.Context(), func(yield func(RawJob) bool) {
					for b.Loop() {
						next := j
						next.Class = "WelcomeEmail"
						if j.Queue != "" {
							next.Queue = j.Queue[n%3 : n%3+1]
						}
						if j.Unique != nil {
							next.Args = []any{n, "template"}
						}
						if n++; !yield(next) {
							return
						}
					}
				})
				require.NoError(b, err)
			})
		}
	}
}

// BenchmarkPush says what a push costs that may be repeated, beside one that may not.
func BenchmarkPush(b *testing.B) {
	for name, again := range map[string]bool{"plain": false, "repeatable": true} {
		b.Run(name, func(b *testing.B) {
			server := drivertest.Start(b)
			d, err := goredisdriver.Open(server.URL())
			require.NoError(b, err)
			client, err := New(d, Config{})
			require.NoError(b, err)
			defer func() { require.NoError(b, client.Close()) }()
			b.ReportAllocs()
			for b.Loop() {
				_, err := client.Push(b.Context(), RawJob{Class: "WelcomeEmail", Args: []any{42, "template"}, PushOnce: again})
				require.NoError(b, err)
			}
			text, err := server.Do(b.Context(), "INFO", "commandstats")
			require.NoError(b, err)
			total := 0.0
			for _, spent := range regexp.MustCompile(`cmdstat_(?:sadd|lpush|evalsha):calls=\d+,usec=(\d+)`).FindAllStringSubmatch(text.(string), -1) {
				usec, err := strconv.ParseFloat(spent[1], 64)
				require.NoError(b, err)
				total += usec
			}
			b.ReportMetric(total/float64(b.N), "redis-µs/push")
		})
	}
}

// BenchmarkBuild says what a job of a bulk push costs the client itself: each call is answered at once.
func BenchmarkBuild(b *testing.B) {
	object := RawJob{Class: "WelcomeEmail", ArgsJSON: `[42,"welcome",{"locale":"en","ratio":0.5}]`}
	for name, j := range map[string]RawJob{
		"args":        {Class: "WelcomeEmail", Args: []any{42, "template"}},
		"args JSON":   {Class: "WelcomeEmail", ArgsJSON: `[42,"template"]`},
		"object JSON": object,
		"object":      {Class: "WelcomeEmail", Args: []any{42, map[string]string{"locale": "en"}}},
		"unique":      {Class: "WelcomeEmail", Args: []any{42, "template"}, Unique: &dedup.Rule{Until: dedup.UntilExecuting}},
		"key":         {Class: "WelcomeEmail", Args: []any{42, "template"}, Key: "k"},
		"later":       {Class: "WelcomeEmail", Args: []any{42, "template"}, In: time.Minute},
	} {
		b.Run(name, func(b *testing.B) {
			client, err := New(accepting{}, Config{})
			require.NoError(b, err)
			b.ReportAllocs()
			_, err = client.PushMany(b.Context(), func(yield func(RawJob) bool) {
				for b.Loop() && yield(j) {
				}
			})
			require.NoError(b, err)
		})
	}
}

// accepting answers each call of a push at once: the jobs are stored.
type accepting struct{ driver.Client }

func (accepting) Do(_ context.Context, calls ...driver.Call) []driver.Reply {
	replies := make([]driver.Reply, len(calls))
	for i, call := range calls {
		switch call.Name() {
		case "push":
			replies[i].Value = "pushed"
		case "push_unique":
			replies[i].Value = []any{"pushed"}
		case "TIME":
			replies[i].Value = []any{"1795240473", "0"}
		}
	}
	return replies
}
