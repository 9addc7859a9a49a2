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

func by(fields ...string) UniqueOpts { return UniqueOpts{Fields: fields} }

func nothing(reindex) any { return nil }

func TestUnique(t *testing.T) {
	t.Parallel()
	t.Run("is what its options say, for a class and for one job", func(t *testing.T) {
		t.Parallel()
		d := Define[int]("A", Unique(UntilExecuted, UniqueOpts{TTL: time.Hour, IncludingScheduled: true, RescheduleOnce: true, PerQueue: true}))
		require.Equal(t, &dedup.Rule{Until: UntilExecuted, TTL: time.Hour, IncludingScheduled: true, RescheduleOnce: true, PerQueue: true}, d.Job(1).Unique)
		require.Equal(t, &dedup.Rule{Until: UntilExecuting}, d.Job(1, Unique(UntilExecuting)).Unique, "what one job says replaces all of it")
		require.Nil(t, d.Job(1, NotUnique()).Unique)
		require.NotNil(t, d.Job(1, NotUnique(), Unique(UntilExecuting)).Unique, "the last one counts")
		require.NotNil(t, d.Job(1).Unique)
	})
	t.Run("has one end and one set of options", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, &dedup.Rule{Until: UntilExecuting, TTL: time.Hour}, Define[int]("A", Unique(UntilExecuting, UniqueOpts{TTL: time.Hour})).Job(1).Unique)
		require.ErrorContains(t, itemWith(Unique(UntilExecuted, UniqueOpts{}, UniqueOpts{PerQueue: true})).Check(), "Unique has several UniqueOpts")
		require.ErrorContains(t, itemWith(Unique("")).Check(), "unique until when?", "a variable that was not set")
		require.ErrorContains(t, itemWith(Unique(UntilExecuted, UniqueOpts{Fields: []string{"ID"}})).Check(), `the fields ["ID"] identify no job without a Definition`)
	})
	t.Run("refuses whatever the class says of being run twice, and marks by name", func(t *testing.T) {
		t.Parallel()
		d := Define[int]("A", NotIdempotent("the bank has no keys"), Unique(UntilExecuted, UniqueOpts{RescheduleOnce: true}))
		require.Equal(t, &dedup.Rule{Until: UntilExecuted, RescheduleOnce: true}, d.Job(1).Unique)
		require.Equal(t, &dedup.Rule{Until: UntilExecuting}, d.Job(1, Unique(UntilExecuting)).Unique)
		marks := d.Job(1, Unique(UntilExecuted, UniqueOpts{MarkDuplicates: true}))
		require.Equal(t, &dedup.Rule{Until: UntilExecuted, MarkDuplicates: true}, marks.Unique)
		require.PanicsWithValue(t, `belay: Define "A": reschedule once applies to refused duplicates, and mark duplicates refuses none: choose one`,
			func() {
				Define[int]("A", Unique(UntilExecuted, UniqueOpts{RescheduleOnce: true, MarkDuplicates: true}))
			})
	})
	t.Run("compares all arguments, or some, or what a function makes of them", func(t *testing.T) {
		t.Parallel()
		a, b, other := reindex{42, nil, "Ann"}, reindex{42, nil, "Ben"}, reindex{43, nil, "Ann"}
		for name, d := range map[string]*Definition[reindex]{
			"fields":   Define[reindex]("A", Unique(UntilExecuted, by("ProductID"))),
			"function": Define[reindex]("A", Unique(UntilExecuted), UniqueBy(func(args reindex) any { return args.ProductID })),
		} {
			require.Equal(t, digestOf(t, d.Job(a)), digestOf(t, d.Job(b)), name)
			require.NotEqual(t, digestOf(t, d.Job(a)), digestOf(t, d.Job(other)), name)
			require.Equal(t, digestOf(t, d.Job(a)), digestOf(t, d.Job(a, Unique(UntilExecuting))), "%s: what identifies jobs is the class'", name)
			require.NotEqual(t, digestOf(t, d.Job(a, Unique(UntilExecuted, UniqueOpts{PerQueue: true}))), digestOf(t, d.Job(a, Unique(UntilExecuted, UniqueOpts{PerQueue: true}), Queue("low"))), name)
		}
		all := Define[reindex]("A", Unique(UntilExecuted))
		require.Equal(t, digestOf(t, all.Job(a)), digestOf(t, all.Job(reindex{ProductID: 42, AskedBy: "Ann"})))
		require.NotEqual(t, digestOf(t, all.Job(a)), digestOf(t, all.Job(b)))
	})
	t.Run("by fields is the digest that any language can compute", func(t *testing.T) {
		t.Parallel()
		d := Define[reindex]("A", Unique(UntilExecuted, by("Fields", "ProductID")))
		want, err := dedup.Digest("A", "", []byte(`[["name"],42]`))
		require.NoError(t, err)
		require.Equal(t, want, digestOf(t, d.Job(reindex{42, []string{"name"}, "Ann"})))
	})
	t.Run("a rule of one job that names arguments itself keeps them", func(t *testing.T) {
		t.Parallel()
		d := Define[reindex]("A", Unique(UntilExecuted, by("ProductID")))
		own := func(i *RawJob) { i.Unique = &dedup.Rule{Until: UntilExecuted, Positions: []int{2}} }
		require.Equal(t, []int{2}, d.Job(reindex{}, own).Unique.Positions)
		require.Equal(t, []int{2}, d.Job(reindex{}, Unique(UntilExecuted, by("Fields"))).Unique.Positions)
		require.Equal(t, []int{1}, d.Job(reindex{}).Unique.Positions, "the class' own rule is as it was")
		require.ErrorContains(t, d.Job(reindex{}, Unique(UntilExecuted, by("Nobody"))).Check(), "belay.reindex has no field Nobody")
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
		for want, options := range map[string][]DefineOption{
			"reschedule once requires until_executed":                         {Unique(UntilExecuting, UniqueOpts{RescheduleOnce: true})},
			`unique until "done"`:                                             {Unique("done")},
			"a lock for -1ns holds nothing":                                   {Unique(UntilExecuted, UniqueOpts{TTL: -1})},
			"a whole number of milliseconds":                                  {Unique(UntilExecuted, UniqueOpts{TTL: time.Microsecond})},
			"belay.reindex has no field product_id that is an argument":       {Unique(UntilExecuted, by("product_id"))},
			"belay.reindex has no field  that is":                             {Unique(UntilExecuted, by(""))},
			"field AskedBy is left out of a job where it is empty":            {Unique(UntilExecuted, by("ProductID", "AskedBy"))},
			"the Fields of Unique are empty":                                  {Unique(UntilExecuted, UniqueOpts{Fields: []string{}})},
			"UniqueBy wants a string, and the arguments are a belay.reindex":  {Unique(UntilExecuted), UniqueBy(func(string) any { return nil })},
			"the function of UniqueBy is nil":                                 {Unique(UntilExecuted), UniqueBy[reindex](nil)},
			"UniqueBy has no effect without Unique; add Unique":               {UniqueBy(nothing)},
			"UniqueBy is given twice; give it once":                           {Unique(UntilExecuted), UniqueBy(nothing), UniqueBy(nothing)},
			"both UniqueBy and the Fields of Unique say which jobs are equal": {Unique(UntilExecuted, by("ProductID")), UniqueBy(nothing)},
			"the Fields of Unique name ProductID twice":                       {Unique(UntilExecuted, by("ProductID", "ProductID"))},
		} {
			func() {
				defer func() { require.Contains(t, recover(), want) }()
				Define[reindex]("A", options...)
			}()
		}
		require.PanicsWithValue(t, `belay: Define "A": the Fields of Unique: field IDs is the rest of the arguments, not one`, func() {
			Define[struct {
				ID  int
				IDs []int `belay:",rest"`
			}]("A", Unique(UntilExecuted, by("IDs")))
		})
		require.PanicsWithValue(t, `belay: Define "A": the Fields of Unique: int has no field ID that is an argument`, func() {
			Define[int]("A", Unique(UntilExecuted, by("ID")))
		})
	})
}
