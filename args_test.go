package belay

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
)

type nested struct {
	Name string `json:"name"`
}

type everything struct {
	UserID  int64
	Ratio   float64
	Name    *string
	Raw     json.RawMessage
	Map     map[string]any
	Nested  nested
	At      time.Time
	Ignored string `json:"-"`
	List    []int
	hidden  int
}

// onTheWire is what Item would store, and back what a handler would be given for it.
func onTheWire[T any](t require.TestingT, args T) string {
	text, err := job.MarshalArgs(Define[T]("A").Item(args).Args)
	require.NoError(t, err)
	return text
}

func back[T any](t require.TestingT, argsJSON string) (T, error) {
	parsed, err := job.Parse(`{"class":"A","jid":"1","args":` + argsJSON + `}`)
	require.NoError(t, err)
	var args T
	s, err := shapeOf(reflect.TypeFor[T]())
	require.NoError(t, err)
	err = s.fill(reflect.ValueOf(&args).Elem(), parsed.Args())
	return args, err
}

func TestArgs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	t.Run("exported fields in order are the positional arguments", func(t *testing.T) {
		t.Parallel()
		text := onTheWire(t, everything{UserID: math.MaxInt64, Ratio: 1, Raw: json.RawMessage(`{"z":1.0}`), Map: map[string]any{"k": 1},
			Nested: nested{"n"}, At: at, Ignored: "x", List: []int{1}, hidden: 1})
		require.Equal(t, `[9223372036854775807,1.0,null,{"z":1.0},{"k":1},{"name":"n"},"2026-01-02T03:04:05Z",[1]]`, text)
		args, err := back[everything](t, text)
		require.NoError(t, err)
		require.Equal(t, everything{UserID: math.MaxInt64, Ratio: 1, Raw: json.RawMessage(`{"z":1.0}`), Map: map[string]any{"k": 1.0},
			Nested: nested{"n"}, At: at, List: []int{1}}, args)
	})
	t.Run("missing trailing arguments and nulls are zero values", func(t *testing.T) {
		t.Parallel()
		args, err := back[everything](t, `[42,null,null]`)
		require.NoError(t, err)
		require.Equal(t, everything{UserID: 42}, args)
		args, err = back[everything](t, `[42,1,"x"]`)
		require.NoError(t, err)
		require.Equal(t, "x", *args.Name)
	})
	t.Run("more arguments than fields are an error", func(t *testing.T) {
		t.Parallel()
		_, err := back[nested](t, `["a","b"]`)
		require.EqualError(t, err, "the job has 2, belay.nested takes at most 1")
		_, err = back[int](t, `[1,2]`)
		require.Error(t, err)
		_, err = back[struct{}](t, `[1]`)
		require.Error(t, err)
	})
	t.Run("an argument of another type is an error that says which", func(t *testing.T) {
		t.Parallel()
		_, err := back[everything](t, `[1,"no number"]`)
		require.ErrorContains(t, err, "argument 2")
	})
	t.Run("what is no struct, or writes itself, is one argument", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, `["2026-01-02T03:04:05Z"]`, onTheWire(t, at))
		require.Equal(t, `[[1,2]]`, onTheWire(t, []int{1, 2}))
		require.Equal(t, `[{"a":1}]`, onTheWire(t, map[string]int{"a": 1}))
		require.Equal(t, `[null]`, onTheWire[any](t, nil))
		require.Equal(t, `[]`, onTheWire(t, struct{}{}))
		list, err := back[[]int](t, `[[1,2]]`)
		require.NoError(t, err)
		require.Equal(t, []int{1, 2}, list)
	})
	t.Run("any struct of plain fields comes back as it was", func(t *testing.T) {
		t.Parallel()
		type plain struct {
			I int64
			U uint64
			F float64
			S string
			B bool
			L []string
		}
		rapid.Check(t, func(t *rapid.T) {
			args := rapid.Make[plain]().Draw(t, "args")
			if len(args.L) == 0 {
				args.L = nil // an empty list and none are the same on the wire or not, by encoding/json's rules
			}
			got, err := back[plain](t, onTheWire(t, args))
			require.NoError(t, err)
			require.Equal(t, args, got)
		})
	})
}

func TestDefine(t *testing.T) {
	t.Parallel()
	t.Run("panics over what cannot be meant", func(t *testing.T) {
		t.Parallel()
		require.PanicsWithValue(t, `belay: Define "A": struct { userID int } has no exported fields to be arguments; capitalize their names`,
			func() { Define[struct{ userID int }]("A") })
		require.Panics(t, func() { Define[int]("") })
	})
	t.Run("options at Enqueue override the definition's, which stays as it was", func(t *testing.T) {
		t.Parallel()
		d := Define[int]("A", Queue("mail"), MaxRetries(5), Tags("a"), Field("bid", "b"), Timeout(time.Second), RetryQueue("low"))
		item := d.Item(1, Queue("low"), NoRetry(), Field("locale", "de"), JID("x"), NoDead(), RetryFor(time.Hour), Backtrace(AllLines))
		require.Equal(t, Item{
			Class: "A", Args: []any{1}, Queue: "low", JID: "x", Retry: job.RetryRule{Kind: job.RetryNever}, RetryFor: time.Hour,
			RetryQueue: "low", Backtrace: AllLines, NoDead: true, Tags: []string{"a"},
			Extra: []job.Edit{{Name: "bid", JSON: `"b"`}, {Name: "locale", JSON: `"de"`}},
		}, item)
		require.Equal(t, Item{
			Class: "A", Args: []any{1}, Queue: "mail", Retry: job.RetryRule{Kind: job.RetryLimit, Limit: 5}, RetryQueue: "low",
			Tags: []string{"a"}, Extra: []job.Edit{{Name: "bid", JSON: `"b"`}},
		}, d.Item(1))
		require.Equal(t, time.Second, d.about.Timeout)
		require.Equal(t, "A", d.Class())
	})
}
