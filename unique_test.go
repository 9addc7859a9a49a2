package belay

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// reindex are arguments of which some identify a job.
type reindex struct {
	ProductID int64
	Fields    []string
	AskedBy   string `json:",omitempty"`
}

// digestOf is what a job has in common with those that count as the same.
func digestOf(t *testing.T, item RawJob) string {
	t.Helper()
	argsJSON, err := job.MarshalArgs(item.Args)
	require.NoError(t, err)
	queue := item.Queue
	if queue == "" {
		queue = "default"
	}
	lock, err := item.Unique.Lock(job.Draft{Class: item.Class, Queue: queue, JID: "j", ArgsJSON: argsJSON})
	require.NoError(t, err)
	return lock.Digest
}

func itemWith(option JobOption) RawJob {
	item := RawJob{Class: "A"}
	option(&item)
	return item
}

func TestUnique(t *testing.T) {
	t.Parallel()
	t.Run("is what its options say, for a class and for one job", func(t *testing.T) {
		t.Parallel()
		d := Define[int]("A", Unique(UntilExecuted, LockTTL(time.Hour), IncludingScheduled(), RescheduleOnce(), PerQueue()))
		require.Equal(t, &UniqueRule{Until: UntilExecuted, TTL: time.Hour, IncludingScheduled: true, RescheduleOnce: true, PerQueue: true}, d.Job(1).Unique)
		require.Equal(t, &UniqueRule{Until: UntilExecuting}, d.Job(1, Unique(UntilExecuting)).Unique, "what one job says replaces all of it")
		require.Nil(t, d.Job(1, NotUnique()).Unique)
		require.NotNil(t, d.Job(1, NotUnique(), Unique()).Unique, "the last one counts")
		require.NotNil(t, d.Job(1).Unique)
	})
	t.Run("is until_executing without a strategy, and has one at most", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, &UniqueRule{Until: UntilExecuting}, Define[int]("A", Unique()).Job(1).Unique)
		require.Equal(t, &UniqueRule{Until: UntilExecuting, TTL: time.Hour}, Define[int]("A", Unique(LockTTL(time.Hour))).Job(1).Unique)
		require.Equal(t, &UniqueRule{Until: UntilExecuted, PerQueue: true}, Define[int]("A", Unique(PerQueue(), UntilExecuted)).Job(1).Unique)
		require.ErrorContains(t, itemWith(Unique(UntilExecuted, UntilExecuting)).Check(), "unique until until_executed and until until_executing")
		require.ErrorContains(t, itemWith(Unique(Until(""))).Check(), "unique until when?", "a variable that was not set")
		require.ErrorContains(t, itemWith(Unique(nil)).Check(), "an option is nil")
	})
	t.Run("refuses whatever the class says of being run twice, and marks by name", func(t *testing.T) {
		t.Parallel()
		d := Define[int]("A", NotIdempotent("the bank has no keys"), Unique(UntilExecuted, RescheduleOnce()))
		require.Equal(t, &UniqueRule{Until: UntilExecuted, RescheduleOnce: true}, d.Job(1).Unique)
		require.Equal(t, &UniqueRule{Until: UntilExecuting}, d.Job(1, Unique()).Unique)
		marks := d.Job(1, Unique(UntilExecuted, MarkDuplicates()))
		require.Equal(t, &UniqueRule{Until: UntilExecuted, MarkDuplicates: true}, marks.Unique)
		require.PanicsWithValue(t, `belay: Define "A": reschedule once applies to refused duplicates, and mark duplicates refuses none: choose one`,
			func() { Define[int]("A", Unique(UntilExecuted, RescheduleOnce(), MarkDuplicates())) })
	})
	t.Run("compares all arguments, or some, or what a function makes of them", func(t *testing.T) {
		t.Parallel()
		a, b, other := reindex{42, nil, "Ann"}, reindex{42, nil, "Ben"}, reindex{43, nil, "Ann"}
		for name, d := range map[string]*Definition[reindex]{
			"fields":   Define[reindex]("A", UniqueByFields("ProductID"), Unique(UntilExecuted)),
			"function": Define[reindex]("A", Unique(UntilExecuted), UniqueBy(func(args reindex) any { return args.ProductID })),
		} {
			require.Equal(t, digestOf(t, d.Job(a)), digestOf(t, d.Job(b)), name)
			require.NotEqual(t, digestOf(t, d.Job(a)), digestOf(t, d.Job(other)), name)
			require.Equal(t, digestOf(t, d.Job(a)), digestOf(t, d.Job(a, Unique(UntilExecuting))), "%s: what identifies jobs is the class'", name)
			require.NotEqual(t, digestOf(t, d.Job(a, Unique(UntilExecuted, PerQueue()))), digestOf(t, d.Job(a, Unique(UntilExecuted, PerQueue()), Queue("low"))), name)
		}
		all := Define[reindex]("A", Unique(UntilExecuted))
		require.Equal(t, digestOf(t, all.Job(a)), digestOf(t, all.Job(reindex{ProductID: 42, AskedBy: "Ann"})))
		require.NotEqual(t, digestOf(t, all.Job(a)), digestOf(t, all.Job(b)))
	})
	t.Run("by fields is the digest that any language can compute", func(t *testing.T) {
		t.Parallel()
		d := Define[reindex]("A", Unique(UntilExecuted), UniqueByFields("Fields", "ProductID"))
		want, err := dedup.Digest("A", "", []byte(`[["name"],42]`))
		require.NoError(t, err)
		require.Equal(t, want, digestOf(t, d.Job(reindex{42, []string{"name"}, "Ann"})))
	})
	t.Run("a rule of one job that names arguments itself keeps them", func(t *testing.T) {
		t.Parallel()
		d := Define[reindex]("A", Unique(UntilExecuted), UniqueByFields("ProductID"))
		own := func(i *RawJob) { i.Unique = &UniqueRule{Until: UntilExecuted, Positions: []int{2}} }
		require.Equal(t, []int{2}, d.Job(reindex{}, own).Unique.Positions)
	})
	t.Run("arguments that are not the class' any more fail the push, when a function reads them", func(t *testing.T) {
		t.Parallel()
		d := Define[reindex]("A", Unique(UntilExecuted), UniqueBy(func(args reindex) any { return args.ProductID }))
		item := d.Job(reindex{})
		item.Args = []any{"encrypted"}
		require.ErrorContains(t, item.Check(), "find what identifies the job: argument 1 (ProductID)")
		bad := Define[int]("A", Unique(UntilExecuted), UniqueBy(func(int) any { return make(chan int) }))
		require.ErrorContains(t, bad.Job(1).Check(), "find what identifies the job")
	})
	t.Run("an answer of which nothing is written fails the push, and drops no job", func(t *testing.T) {
		t.Parallel()
		type key struct{ id int }
		for _, answer := range []func(int) any{
			func(n int) any { return key{n} }, func(n int) any { return &key{n} }, func(n int) any { return []any{"a", key{n}} },
		} {
			d := Define[int]("A", Unique(UntilExecuted), UniqueBy(answer))
			err := d.Job(1).Check()
			require.ErrorContains(t, err, "find what identifies the job: the answer of UniqueBy: write JSON: ")
			require.ErrorContains(t, err, "belay.key has no exported fields")
		}
		for _, answer := range []func(int) any{
			func(n int) any { return time.Unix(int64(n), 0) }, func(n int) any { return big.NewInt(int64(n)) }, func(n int) any { return []int{n} },
		} {
			d := Define[int]("A", Unique(UntilExecuted), UniqueBy(answer))
			require.NotEqual(t, digestOf(t, d.Job(1)), digestOf(t, d.Job(2)))
		}
	})
	t.Run("panics in Define over what cannot be meant", func(t *testing.T) {
		t.Parallel()
		unique := Unique(UntilExecuted)
		for want, options := range map[string][]DefineOption{
			"reschedule once requires until_executed":                               {Unique(UntilExecuting, RescheduleOnce())},
			`unique until "done"`:                                                   {Unique(Until("done"))},
			"a lock for -1ns holds nothing":                                         {Unique(UntilExecuted, LockTTL(0))},
			"a whole number of milliseconds":                                        {Unique(UntilExecuted, LockTTL(time.Microsecond))},
			"belay.reindex has no field product_id that is an argument":             {unique, UniqueByFields("product_id")},
			"belay.reindex has no field  that is":                                   {unique, UniqueByFields("")},
			"field AskedBy is left out of a job where it is empty":                  {unique, UniqueByFields("ProductID", "AskedBy")},
			"UniqueByFields names none":                                             {unique, UniqueByFields()},
			"UniqueBy wants a string, and the arguments are a belay.reindex":        {unique, UniqueBy(func(string) any { return nil })},
			"the function of UniqueBy is nil":                                       {unique, UniqueBy[reindex](nil)},
			"UniqueBy and UniqueByFields have no effect without Unique; add Unique": {UniqueByFields("ProductID")},
			"UniqueBy or UniqueByFields is given twice; give one of them once":      {unique, UniqueByFields("ProductID"), UniqueByFields("ProductID")},
			"UniqueByFields names field ProductID twice":                            {unique, UniqueByFields("ProductID", "ProductID")},
		} {
			func() {
				defer func() { require.Contains(t, recover(), want) }()
				Define[reindex]("A", options...)
			}()
		}
		require.PanicsWithValue(t, `belay: Define "A": UniqueByFields: field IDs is the rest of the arguments, not one`, func() {
			Define[struct {
				ID  int
				IDs []int `belay:",rest"`
			}]("A", unique, UniqueByFields("IDs"))
		})
		require.PanicsWithValue(t, `belay: Define "A": UniqueByFields: int has no field ID that is an argument`, func() {
			Define[int]("A", unique, UniqueByFields("ID"))
		})
	})
}
