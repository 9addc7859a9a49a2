package fetch

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

const plainPayload = `{"retry":true,"queue":"default","args":[42,"short"],"class":"Welcome","jid":"0123456789abcdef01234567",` +
	`"created_at":1700000000.123456,"enqueued_at":1700000000.123456}`

// A processor and the loop both ask for the job of a run.
func TestAPayloadIsParsedOnce(t *testing.T) {
	t.Parallel()
	r := &Run{Bytes: plainPayload}
	parsed := make([]*job.Job, 8)
	var asking sync.WaitGroup
	for i := range parsed {
		asking.Go(func() { parsed[i], _ = r.Job() })
	}
	asking.Wait()
	for _, again := range parsed {
		require.NotNil(t, again)
		require.Same(t, parsed[0], again)
	}
	require.Equal(t, "0123456789abcdef01234567", r.JID())
}

func TestAnUnreadablePayloadHasNoJID(t *testing.T) {
	t.Parallel()
	r := &Run{Bytes: `{"class":`}
	for range 2 {
		parsed, err := r.Job()
		require.Error(t, err)
		require.Nil(t, parsed)
		require.Empty(t, r.JID())
	}
}

// BenchmarkJob says what reading its payload costs a run: once for a processor, and again for each later look.
func BenchmarkJob(b *testing.B) {
	b.Run("of a new run", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := &Run{Bytes: plainPayload}
			if _, err := r.Job(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("and its jid", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := &Run{Bytes: plainPayload}
			if _, err := r.Job(); err != nil || r.JID() == "" {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := job.ParseToRun(plainPayload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
