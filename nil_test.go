package belay_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
)

// A nil value is most often an unchecked error, and a panic that names neither is hard to find.
func TestWhatIsNilIsNamed(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	welcome := belay.Define[int]("Welcome")
	var none belay.Definition[int]
	server := newServer(t, client, belay.ServerConfig{})
	run := func(context.Context, int) error { return nil }
	for says, do := range map[string]func(){
		"belay: Enqueue Welcome: the client is nil; check the error of Open":     func() { _, _ = welcome.Enqueue(t.Context(), nil, 1) },
		"belay: EnqueueMany Welcome: the client is nil; check the error of Open": func() { _, _ = welcome.EnqueueMany(t.Context(), nil, nil) },
		"belay: EnqueueMany Welcome: the sequence is nil":                        func() { _, _ = welcome.EnqueueMany(t.Context(), client, nil) },
		"belay: EnqueueSeq Welcome: the client is nil; check the error of Open":  func() { _, _ = welcome.EnqueueSeq(t.Context(), nil, nil, nil) },
		"belay: EnqueueSeq Welcome: the sequence is nil":                         func() { _, _ = welcome.EnqueueSeq(t.Context(), client, nil, nil) },
		"belay: a bulk push: the sequence is nil":                                func() { _, _ = client.PushMany(t.Context(), nil) },
		"belay: Enqueue: the definition is empty; make it by Define":             func() { _, _ = none.Enqueue(t.Context(), client, 1) },
		"belay: Job: the definition is empty; make it by Define":                 func() { (*belay.Definition[int])(nil).Job(1) },
		"belay: Handler: the definition is empty; make it by Define":             func() { none.Handler(run) },
		"belay: Handle: the definition is empty; make it by Define":              func() { none.Handle(server, run) },
		"belay: Args: the definition is empty; make it by Define":                func() { _, _ = none.Args(nil) },
		"belay: Handle Welcome: the server is empty; make it by NewServer":       func() { welcome.Handle(nil, run) },
		"belay: Run: the server is empty; make it by NewServer":                  func() { _ = new(belay.Server).Run(t.Context()) },
		"belay: RunProcess: the server is empty; make it by NewServer":           func() { _ = new(belay.Server).RunProcess(t.Context(), belay.ProcessConfig{}) },
		"belay: Stop: the server is empty; make it by NewServer":                 func() { (*belay.Server)(nil).Stop() },
		`belay: Server.Use: middleware "a" is nil`:                               func() { server.Use("a", nil) },
		`belay: Client.Use: middleware "a" is nil`:                               func() { client.Use("a", nil) },
		"belay: OnError: the function is nil":                                    func() { server.OnError(nil) },
		"belay: OnExit: the function is nil":                                     func() { server.OnExit(nil) },
		`belay: Define "A": an option is nil`:                                    func() { belay.Define[int]("A", nil) },
		`belay: Define "A": an option is nil; the function of OnExhausted is nil; the function of AroundArgs is nil`: func() {
			belay.Define[int]("A", nil, belay.OnExhausted[int](nil), belay.AroundArgs[int](nil))
		},
		"belay: Main: the function is nil": func() { belay.Main(nil, belay.MainConfig{}) },
	} {
		if do != nil {
			require.PanicsWithValue(t, says, do)
		}
	}

	for _, none := range []*belay.Client{nil, new(belay.Client)} {
		_, err := belay.NewServer(none, belay.ServerConfig{})
		require.EqualError(t, err, "belay: NewServer: the client is nil; check the error of Open")
	}
	receipt, err := welcome.Enqueue(t.Context(), client, 1, nil)
	require.ErrorContains(t, err, "an option is nil")
	require.Equal(t, belay.StatusNotPushed, receipt.Status)
}

// A variable that is not set must not send jobs to a keyspace without workers.
func TestAnOptionThatCannotBeMeantIsAnError(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	welcome := belay.Define[int]("Welcome", belay.Queue("mail"))
	for _, option := range []belay.JobOption{belay.Queue(""), belay.RetryQueue("")} {
		receipt, err := welcome.Enqueue(t.Context(), client, 1, option)
		require.ErrorContains(t, err, "is given no name; was a variable not set?")
		require.Equal(t, belay.StatusNotPushed, receipt.Status)
		receipts, err := welcome.EnqueueMany(t.Context(), client, slices.Values([]int{1, 2}), option)
		require.ErrorContains(t, err, "is given no name; was a variable not set?")
		require.Len(t, receipts, 1)
		require.Panics(t, func() { belay.Define[int]("A", option) })
	}
	receipts, err := welcome.EnqueueMany(t.Context(), client, slices.Values([]int{1, 2}), belay.JID("same"))
	var bulk *belay.BulkError
	require.ErrorAs(t, err, &bulk)
	require.ErrorContains(t, err, "JID same would be the id of every job")
	require.Len(t, receipts, 2)
	require.Equal(t, 2, bulk.NotPushed)
	sent := client.Driver().Do(t.Context(), driver.Command("LLEN", client.Config().Prefix+":queue:mail"), driver.Command("LLEN", client.Config().Prefix+":queue:default"))
	require.Equal(t, []driver.Reply{{Value: int64(0)}, {Value: int64(0)}}, sent)

	receipts, err = welcome.EnqueueMany(t.Context(), client, slices.Values([]int{1, 2}), belay.Key("same", time.Hour))
	require.ErrorContains(t, err, "one Key for every job would store only the first")
	require.Len(t, receipts, 2)
	for want, option := range map[string]belay.JobOption{
		"the Key is empty": belay.Key("", time.Hour), "Key for 0s: it must be at least 1ms": belay.Key("k", 0),
		"Replicated(0): it must be at least 1": belay.Replicated(0, time.Second), "Replicated for 0s": belay.Replicated(1, 0),
		"RetryFor 0s: it must be at least 1s": belay.RetryFor(0), "RetryFor -1s: it must be": belay.RetryFor(-time.Second),
		"the batch is empty": belay.InBatch(new(belay.Batch)),
	} {
		_, err := welcome.Enqueue(t.Context(), client, 1, option)
		require.ErrorContains(t, err, want)
	}
	_, err = belay.NewBatch(t.Context(), client, belay.BatchConfig{Parent: new(belay.Batch)}, func(*belay.Batch) error { return nil })
	require.ErrorContains(t, err, "its Parent: the batch is empty")
	err = belay.Do(t.Context(), client, belay.Limit{Name: "a", Concurrency: 1}, "", func(context.Context) error { return nil }, nil)
	require.EqualError(t, err, "belay: Do: an option is nil")

	tags := []string{"own"}
	tagged := belay.Define[int]("Tagged", belay.Tags(tags...))
	tags[0] = "changed later"
	require.Equal(t, []string{"own"}, tagged.Job(1).Tags)

	own := func(i *belay.RawJob) { i.JID = fmt.Sprintf("welcome-%v", i.Args[0]) } // one for each is in order
	receipts, err = welcome.EnqueueMany(t.Context(), client, slices.Values([]int{1, 2}), own)
	require.NoError(t, err)
	require.Equal(t, []string{"welcome-1", "welcome-2"}, []string{receipts[0].JID, receipts[1].JID})
}
