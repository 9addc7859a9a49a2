package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

func seqOf(jobs ...RawJob) iter.Seq[RawJob] { return slices.Values(jobs) }

// sequence is n jobs with their number as argument, spread over the queues in turn. drawn counts those asked
// for.
func sequence(n int, drawn *int, queues ...string) iter.Seq[RawJob] {
	return func(yield func(RawJob) bool) {
		for i := range n {
			*drawn++
			if !yield(RawJob{Class: "A", Args: []any{i}, Queue: queues[i%len(queues)]}) {
				return
			}
		}
	}
}

func statuses(receipts []Receipt) []Status {
	all := make([]Status, len(receipts))
	for i, receipt := range receipts {
		all[i] = receipt.Status
	}
	return all
}

func repeat(status Status, n int) []Status { return slices.Repeat([]Status{status}, n) }

// numbers are the arguments of the jobs in a queue, and jids their ids, in the order in which they will be
// taken.
func (w *world) numbers(queue string) (numbers, jids []string) {
	w.Helper()
	for _, payload := range w.queue(queue) {
		parsed, err := job.Parse(payload)
		require.NoError(w, err)
		numbers, jids = append(numbers, parsed.Args()[0]), append(jids, parsed.JID())
	}
	return numbers, jids
}

func TestPushMany(t *testing.T) {
	const n = 2*lua.MaxItems + 10
	promises(t, Config{}, map[string]func(w *world){
		"stores jobs in the order they came": func(w *world) {
			drawn := 0
			receipts, err := w.client.PushMany(w.Context(), sequence(n, &drawn, "a"))
			require.NoError(w, err)
			numbers, jids := w.numbers("a")
			require.Len(w, numbers, n)
			for i := range n {
				require.Equal(w, fmt.Sprint(i), numbers[i])
				require.Equal(w, Receipt{JID: jids[i], Queue: "a", Status: StatusQueued}, receipts[i])
			}
			require.Equal(w, 3, w.proxy.Count("LPUSH"), "a plain command for each slice of one queue")
			require.Zero(w, w.proxy.Count("EVALSHA"))
		},
		"keeps the order within each of several queues": func(w *world) {
			drawn := 0
			receipts, err := w.client.PushMany(w.Context(), sequence(n, &drawn, "a", "b"))
			require.NoError(w, err)
			for q, queue := range []string{"a", "b"} {
				numbers, jids := w.numbers(queue)
				require.Len(w, numbers, n/2)
				for i := range n / 2 {
					require.Equal(w, fmt.Sprint(2*i+q), numbers[i])
					require.Equal(w, jids[i], receipts[2*i+q].JID)
				}
			}
			require.Equal(w, 3, w.proxy.Count("EVALSHA"), "one script for each slice of several queues")
			require.ElementsMatch(w, []any{"a", "b"}, w.do("SMEMBERS", w.keys.Queues()))
		},
		"nothing to push is no push": func(w *world) {
			receipts, err := w.client.PushMany(w.Context(), seqOf())
			require.NoError(w, err)
			require.Empty(w, receipts)
		},
		"stops at the slice whose reply was lost": func(w *world) {
			drawn := 0
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "LPUSH", Nth: 2, Do: faultproxy.Close()})
			receipts, err := w.client.PushMany(w.Context(), sequence(2*n, &drawn, "a"))
			require.ErrorIs(w, err, ErrUnknown)
			var bulk *BulkError
			require.ErrorAs(w, err, &bulk)
			const each = lua.MaxItems
			require.Equal(w, []int{each, 0, each, each}, []int{bulk.Queued, bulk.Refused, bulk.Unknown, bulk.NotPushed})
			require.Equal(w, slices.Concat(repeat(StatusQueued, each), repeat(StatusUnknown, each), repeat(StatusNotPushed, each)), statuses(receipts))
			require.Equal(w, len(receipts), drawn, "every job that was drawn has a receipt")
			require.Len(w, w.queue("a"), 2*lua.MaxItems, "this time Redis has them")
			require.Equal(w, 2, w.proxy.Count("LPUSH"))
		},
		"a slice over several queues is stored all or none": func(w *world) {
			w.do("SET", w.keys.Queue("odd"), "x")
			receipts, err := w.client.PushMany(w.Context(), seqOf(RawJob{Class: "A", Queue: "a"}, RawJob{Class: "A", Queue: "odd"}))
			require.ErrorContains(w, err, "WRONGTYPE")
			require.Equal(w, repeat(StatusNotPushed, 2), statuses(receipts))
			require.Empty(w, w.queue("a"))
		},
		"an invalid job fails its slice before anything of it is sent": func(w *world) {
			receipts, err := w.client.PushMany(w.Context(), seqOf(RawJob{Class: "A", Queue: "a"}, RawJob{}, RawJob{Class: "A", Queue: "a"}))
			var invalid *InvalidError
			require.ErrorAs(w, err, &invalid)
			require.ErrorContains(w, err, "job 2 of the bulk")
			require.Equal(w, repeat(StatusNotPushed, 2), statuses(receipts))
			require.Empty(w, w.queue("a"))
		},
		"cuts slices by bytes": func(w *world) {
			long := strings.Repeat("x", 1<<19)
			pushed := slices.Values(slices.Repeat([]RawJob{{Class: "A", Args: []any{long}, Queue: "a"}}, 10))
			push := func() (slices int) {
				before := w.proxy.Count("LPUSH")
				_, err := w.client.PushMany(w.Context(), pushed)
				require.NoError(w, err)
				return w.proxy.Count("LPUSH") - before
			}
			require.GreaterOrEqual(w, push(), 2, "a slice is smaller on a link that is not known to be fast")
			w.knowsThatItsLinkIsFast()
			require.Equal(w, 2, push())
			require.Len(w, w.queue("a"), 20)
		},
	})
}

// knowsThatItsLinkIsFast teaches the client that, by quick answers to large calls. The proxy may be too slow to do
// so on a busy machine.
func (w *world) knowsThatItsLinkIsFast() {
	w.Helper()
	link, real := w.client.spaces[0].link, w.client.spaces[0].link.Client
	link.Client = instant{real}
	defer func() { link.Client = real }()
	for n := 0; n < 100 && w.client.Page() < lua.MaxBytes; n++ {
		link.Carry(w.Context(), 0, driver.Command("SET", "x", strings.Repeat("x", link.Page())))
	}
	require.Equal(w, lua.MaxBytes, w.client.Page())
}

// instant answers each call at once.
type instant struct{ driver.Client }

func (instant) Do(_ context.Context, calls ...driver.Call) []driver.Reply {
	return make([]driver.Reply, len(calls))
}

func TestPushSlices(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"yields each slice when it is stored, and breaking off pushes no more": func(w *world) {
			drawn, pushed := 0, 0
			for receipts, err := range w.client.PushSlices(w.Context(), sequence(10_000, &drawn, "a")) {
				require.NoError(w, err)
				pushed += len(receipts)
				require.Len(w, w.queue("a"), pushed)
				require.LessOrEqual(w, drawn, pushed+lua.MaxItems, "a slice is read while another one is sent")
				if pushed == 2*lua.MaxItems {
					break
				}
			}
			require.Len(w, w.queue("a"), 2*lua.MaxItems)
		},
		"sends what it has when the iterator is slow": func(w *world) {
			w.client.linger = -1 // any time is too long
			drawn := 0
			for receipts, err := range w.client.PushSlices(w.Context(), sequence(3, &drawn, "a")) {
				require.NoError(w, err)
				require.Len(w, receipts, 1)
			}
			require.Len(w, w.queue("a"), 3)
		},
		"reads the next slice while one is sent, and sends one after the other": func(w *world) {
			sent := faultproxy.NewGate()
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "LPUSH", Nth: 1, Do: faultproxy.Hold(sent)})
			drawn := 0
			jobs := func(yield func(RawJob) bool) {
				for j := range sequence(3*lua.MaxItems, new(int), "a") {
					if drawn++; drawn == 2*lua.MaxItems { // before the reply to the first slice
						<-sent.Arrived()
						require.Equal(w, 1, w.proxy.Count("LPUSH"))
						sent.Open()
					}
					if !yield(j) {
						return
					}
				}
			}
			for receipts, err := range w.client.PushSlices(w.Context(), jobs) {
				require.NoError(w, err)
				require.Equal(w, repeat(StatusQueued, lua.MaxItems), statuses(receipts))
			}
			numbers, _ := w.numbers("a")
			require.Len(w, numbers, 3*lua.MaxItems)
			for i := range numbers {
				require.Equal(w, fmt.Sprint(i), numbers[i])
			}
		},
		"jobs that were read before a break learn that they are not pushed": func(w *world) {
			var outcomes []Status
			jobs := func(yield func(RawJob) bool) {
				for j := range sequence(10_000, new(int), "a") {
					j.OnPushed(func(r Receipt, err error) {
						require.Equal(w, r.Status == StatusNotPushed, errors.Is(err, errBroken))
						outcomes = append(outcomes, r.Status)
					})
					if !yield(j) {
						return
					}
				}
			}
			for receipts, err := range w.client.PushSlices(w.Context(), jobs) {
				require.NoError(w, err)
				require.Len(w, receipts, lua.MaxItems)
				break
			}
			require.Equal(w, slices.Concat(repeat(StatusQueued, lua.MaxItems), repeat(StatusNotPushed, lua.MaxItems)), outcomes)
			require.Len(w, w.queue("a"), lua.MaxItems)
		},
		"an invalid job behind a slice that fails has a receipt": func(w *world) {
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "LPUSH", Nth: 1, Do: faultproxy.Fail("LOADING Redis is loading")})
			jobs := slices.Collect(sequence(lua.MaxItems, new(int), "a"))
			receipts, err := w.client.PushMany(w.Context(), seqOf(append(jobs, RawJob{Class: "A"}, RawJob{}, RawJob{Class: "A"})...))
			require.ErrorContains(w, err, "LOADING")
			require.Equal(w, repeat(StatusNotPushed, lua.MaxItems+2), statuses(receipts))
		},
		"does nothing unless it is ranged over": func(w *world) {
			drawn := 0
			_ = w.client.PushSlices(w.Context(), sequence(1, &drawn, "a"))
			require.Zero(w, drawn)
		},
	})
}

func TestPushSeq(t *testing.T) {
	const n = 2*lua.MaxItems + 10
	// slice is what progress gets.
	type slice struct {
		receipts []Receipt
		err      error
	}
	// push pushes the jobs, and returns also what progress got.
	push := func(w *world, jobs iter.Seq[RawJob]) (n int, all []slice, err error) {
		n, err = w.client.PushSeq(w.Context(), jobs, func(receipts []Receipt, err error) { all = append(all, slice{receipts, err}) })
		return n, all, err
	}
	promises(t, Config{}, map[string]func(w *world){
		"reports each slice when it is stored, and how many jobs there were": func(w *world) {
			drawn, stored := 0, 0
			pushed, err := w.client.PushSeq(w.Context(), sequence(n, &drawn, "a"), func(receipts []Receipt, err error) {
				require.NoError(w, err)
				stored += len(receipts)
				require.Len(w, w.queue("a"), stored)
			})
			require.NoError(w, err)
			require.Equal(w, []int{n, n, n}, []int{pushed, stored, drawn})
		},
		"leaves out an invalid job alone": func(w *world) {
			outcomes := make(map[Status]error)
			watched := func(j RawJob) RawJob {
				j.OnPushed(func(r Receipt, err error) { outcomes[r.Status] = err })
				return j
			}
			pushed, all, err := push(w, seqOf(watched(RawJob{Class: "A", Queue: "a"}), watched(RawJob{}), RawJob{Class: "A", Queue: "a"}))
			require.Equal(w, 3, pushed)
			require.ErrorContains(w, err, "job 2 of the bulk")
			_, invalid := errors.AsType[*InvalidError](err)
			require.True(w, invalid)
			bulk, _ := errors.AsType[*BulkError](err)
			require.Equal(w, []int{2, 1}, []int{bulk.Queued, bulk.NotPushed})
			require.Len(w, w.queue("a"), 2)
			require.Len(w, all, 1)
			require.Equal(w, []Status{StatusQueued, StatusNotPushed, StatusQueued}, statuses(all[0].receipts))
			require.Error(w, all[0].err)
			require.NoError(w, outcomes[StatusQueued])
			require.ErrorContains(w, outcomes[StatusNotPushed], "job 2 of the bulk", "the middleware of the job learns why")
		},
		"keeps few errors of many invalid jobs": func(w *world) {
			pushed, _, err := push(w, slices.Values(make([]RawJob, n)))
			require.Equal(w, n, pushed)
			bulk, _ := errors.AsType[*BulkError](err)
			require.Equal(w, n, bulk.NotPushed)
			require.Equal(w, maxErrors, strings.Count(err.Error(), "of the bulk"))
		},
		"stops at the slice whose reply was lost": func(w *world) {
			drawn := 0
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "LPUSH", Nth: 2, Do: faultproxy.Close()})
			pushed, all, err := push(w, sequence(2*n, &drawn, "a"))
			require.ErrorIs(w, err, ErrUnknown)
			require.Equal(w, lua.MaxItems, pushed)
			require.Equal(w, slices.Concat(repeat(StatusUnknown, lua.MaxItems), repeat(StatusNotPushed, lua.MaxItems)), statuses(all[1].receipts))
			require.Equal(w, 3*lua.MaxItems, drawn)
			require.Len(w, w.queue("a"), 2*lua.MaxItems, "this time Redis has them, and only once")
		},
		"sends a slice again that Redis certainly does not have": func(w *world) {
			drawn := 0
			for nth := 2; nth <= 4; nth++ {
				w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "LPUSH", Nth: nth, Do: faultproxy.Fail("LOADING Redis is loading")})
			}
			pushed, all, err := push(w, sequence(n, &drawn, "a"))
			require.NoError(w, err)
			require.Equal(w, n, pushed)
			for _, slice := range all {
				require.Equal(w, repeat(StatusQueued, len(slice.receipts)), statuses(slice.receipts))
			}
			numbers, _ := w.numbers("a")
			require.Len(w, numbers, n)
			for i := range n {
				require.Equal(w, fmt.Sprint(i), numbers[i], "in order, and none twice")
			}
		},
		"stops at once where sending again cannot help": func(w *world) {
			for _, err := range []error{ErrOldWorker, ErrUnknown, ErrStale, ErrNotRepeatable} {
				require.False(w, away(fmt.Errorf("%w: %w", err, &driver.NotSentError{Err: context.Canceled})), err)
			}
			require.True(w, away(outcomeOf(&driver.NotSentError{Err: errors.New("no connection")})))
			require.False(w, away(outcomeOf(driver.NewServerError("OOM command not allowed"))))
			require.False(w, away(nil))
		},
		"stops where Redis refuses the jobs": func(w *world) {
			w.do("SET", w.keys.Queue("odd"), "x")
			drawn := 0
			pushed, _, err := push(w, sequence(n, &drawn, "odd"))
			require.ErrorContains(w, err, "WRONGTYPE")
			require.Zero(w, pushed)
			require.Equal(w, 2*lua.MaxItems, drawn)
		},
	})
}

func TestPushSeqRepeatsForNoLongerThanRepeatFor(t *testing.T) {
	promises(t, Config{RepeatFor: -1}, map[string]func(w *world){
		"sends nothing again where RepeatFor says so": func(w *world) {
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "LPUSH", Nth: 1, Do: faultproxy.Fail("LOADING Redis is loading")})
			pushed, err := w.client.PushSeq(w.Context(), seqOf(RawJob{Class: "A", Queue: "a"}), func(receipts []Receipt, err error) {
				require.ErrorContains(w, err, "LOADING")
				require.Equal(w, repeat(StatusNotPushed, 1), statuses(receipts))
			})
			require.ErrorContains(w, err, "LOADING")
			require.Zero(w, pushed)
		},
	})
}

func TestBulkErrorSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	err := &BulkError{Queued: 256, Refused: 1, Unknown: 3, Err: errors.New("gone")}
	require.EqualError(t, err, "bulk push incomplete: 256 jobs queued, 1 refused, 0 duplicates, 3 unknown, 0 not pushed: gone")
}

// breaking panics when a job is pushed, as a hook of a user's Redis client may, or ends the goroutine.
type breaking struct {
	accepting
	panics bool
}

func (b breaking) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	switch {
	case calls[len(calls)-1].Name() != "LPUSH":
		return b.accepting.Do(ctx, calls...)
	case b.panics:
		panic("a hook")
	default:
		runtime.Goexit()
		return nil
	}
}

func TestABulkWhoseDriverBreaksDoesNotEndTheProgram(t *testing.T) {
	t.Parallel()
	open := func(d breaking) *Client {
		client, err := New(d, Config{})
		require.NoError(t, err)
		client.linger = time.Hour // a slice that a slow machine fills is not sent by this goroutine
		return client
	}
	client := open(breaking{panics: true})
	require.PanicsWithValue(t, "a hook", func() { _, _ = client.PushMany(t.Context(), sequence(1000, new(int), "a")) })

	client = open(breaking{})
	receipts, err := client.PushMany(t.Context(), sequence(1000, new(int), "a"))
	require.ErrorIs(t, err, ErrUnknown)
	require.Equal(t, slices.Concat(repeat(StatusUnknown, lua.MaxItems), repeat(StatusNotPushed, lua.MaxItems)), statuses(receipts))
}

func TestABulkWhoseSequencePanicsEndsItsCallsFirst(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"nothing is pushed after it": func(w *world) {
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "LPUSH", Nth: 1, Do: faultproxy.Delay(50 * time.Millisecond)})
			require.PanicsWithValue(w, "no more", func() {
				_, _ = w.client.PushMany(w.Context(), func(yield func(RawJob) bool) {
					for j := range sequence(lua.MaxItems+1, new(int), "a") {
						yield(j)
					}
					panic("no more")
				})
			})
			require.Len(w, w.queue("a"), lua.MaxItems)
		},
	})
}
