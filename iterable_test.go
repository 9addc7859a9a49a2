package belay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A rubyIterable is an iterable job of twenty items that a version of Sidekiq left: see job/testdata.
type rubyIterable struct {
	State   map[string]string
	Payload string
	Done    []any
	// GoesOnWith is the first item of the job's next run.
	GoesOnWith any `json:"goes_on_with"`
}

// Sidekiq's cursor is the item to begin with, and so is that of Each and Pages: no item is skipped or repeated.
func TestAnIterableJobGoesOnInTheOtherLanguageWithTheSameItem(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"7.3", "8.1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("job/testdata/iterable-" + version + ".json")
			require.NoError(t, err)
			var recorded struct {
				Array, Enumerator, Failed *rubyIterable
				AfterGo                   struct{ Cursor string } `json:"after_go"`
			}
			require.NoError(t, json.Unmarshal(text, &recorded))
			client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &belay.ClientConfig{Prefix: drivertest.Prefix(t)})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			keys := lua.NewKeys(client.Config().Prefix)
			do := func(words ...string) any {
				reply := client.Driver().Do(t.Context(), driver.Command(words...))[0]
				require.NoError(t, reply.Err)
				return reply.Value
			}
			server := newServer(t, client, belay.ServerConfig{Concurrency: 1})
			items := make(chan any, 20)
			// The cursors of Ruby's array_enumerator are indices, those of the other one its items.
			belay.Define[int]("Numbers").Handle(server, func(ctx context.Context, count int) error {
				page := func(_ context.Context, from int) (page []int, _ error) {
					for n := from; n < min(from+3, count); n++ {
						page = append(page, n)
					}
					return page, nil
				}
				return belay.Pages(ctx, page, func(n int) int { return n }, func(_ context.Context, n int) error {
					items <- float64(10 * (n + 1))
					return nil
				})
			})
			letter := func(n int) string { return fmt.Sprintf("%c", 'a'+n) }
			belay.Define[int]("Lines").Handle(server, func(ctx context.Context, count int) error {
				return belay.Each(ctx, from(count, letter), func(_ context.Context, n int) error {
					items <- letter(n)
					return nil
				})
			})
			interrupted := belay.Define[int]("Interrupted")
			interrupted.Handle(server, func(ctx context.Context, count int) error {
				return belay.Each(ctx, from(count, letter), func(_ context.Context, n int) error {
					items <- letter(n)
					if letter(n) == "e" {
						<-belay.Stopping(ctx)
					}
					return nil
				})
			})
			ended := running(t, server)
			for _, left := range []*rubyIterable{recorded.Array, recorded.Enumerator, recorded.Failed} {
				if left == nil {
					continue // Sidekiq 7.3 saves nothing when an item fails
				}
				parsed, err := job.Parse(left.Payload)
				require.NoError(t, err)
				for name, value := range left.State {
					do("HSET", keys.Iteration(parsed.JID()), name, value)
				}
				do("LPUSH", keys.Queue("default"), left.Payload)
				require.Equal(t, left.GoesOnWith, awaitValue(t, "the first item", items), left.Payload)
				for range 20 - len(left.Done) - 1 {
					awaitValue(t, "a further item", items)
				}
			}
			receipt, err := interrupted.Enqueue(t.Context(), client, 20)
			require.NoError(t, err)
			for range 5 {
				awaitValue(t, "an item", items)
			}
			server.Stop()
			require.NoError(t, awaitValue(t, "the end of the server", ended))
			require.Equal(t, recorded.AfterGo.Cursor, do("HGET", keys.Iteration(receipt.JID), lua.FieldCursor))
		})
	}
}

// from returns the sequence of so many numbers, with a cursor for each.
func from(count int, cursor func(n int) string) func(begin string, resumed bool) iter.Seq2[string, int] {
	return func(begin string, _ bool) iter.Seq2[string, int] {
		return func(yield func(string, int) bool) {
			for n := range count {
				if c := cursor(n); c >= begin && !yield(c, n) {
					return
				}
			}
		}
	}
}
