package driver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// nodes are clients of nodes by their addresses: each gives its reply, or is silent without one.
type nodes struct {
	replies map[string]any
	asked   []string
}

func (n *nodes) open(u *URL) (Client, error) {
	addr := u.Addrs[0]
	n.asked = append(n.asked, addr)
	reply, ok := n.replies[addr]
	return &node{reply, ok}, nil
}

type node struct {
	reply    any
	answered bool
}

func (n *node) Do(ctx context.Context, _ ...Call) []Reply {
	if err, failed := n.reply.(error); failed {
		return []Reply{{Err: err}}
	}
	if !n.answered {
		<-ctx.Done()
		return []Reply{{Err: &NotSentError{Err: ctx.Err()}}}
	}
	return []Reply{{Value: n.reply}}
}
func (n *node) Lane(int) (Client, error) { panic("not used") }
func (n *node) Waiter() (Waiter, error)  { panic("not used") }
func (n *node) Listen(context.Context, []string, time.Duration, func(), func(message string)) error {
	panic("not used")
}
func (n *node) Close() error { return nil }

// at is a node in CLUSTER SLOTS.
func at(host any, port int64, more ...any) []any { return append([]any{host, port, "id"}, more...) }

func TestFinderOfACluster(t *testing.T) {
	t.Parallel()
	u, err := ParseURL("redis+cluster://a,b,c", ForPrefix("{foo}")) // slot 12182
	require.NoError(t, err)
	for name, row := range map[string]struct {
		reply any
		found string
	}{
		"the_primary_of_the_range": {[]any{
			[]any{int64(0), int64(12181), at("x", 1)}, []any{int64(12182), int64(12182), at("y", 2), at("x", 1)}, []any{int64(12183), int64(16383), at("x", 1)},
		}, "y:2"},
		"no_host":          {[]any{[]any{int64(0), int64(16383), at(nil, 7)}}, "a:7"},
		"an_empty_host":    {[]any{[]any{int64(0), int64(16383), at("", 7)}}, "a:7"},
		"an_unknown_host":  {[]any{[]any{int64(0), int64(16383), at("?", 7, []any{"ip", "10.0.0.1"})}}, "10.0.0.1:7"},
		"an_ipv6_host":     {[]any{[]any{int64(0), int64(16383), at("::1", 7)}}, "[::1]:7"},
		"an_unserved_slot": {[]any{[]any{int64(0), int64(100), at("x", 1)}}, ""},
		"no_slots":         {[]any{}, ""},
		"no_cluster":       {errors.New("ERR This instance has cluster support disabled"), ""},
		"odd":              {[]any{"x", []any{int64(1)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &nodes{replies: map[string]any{"a:6379": row.reply, "b:6379": row.reply, "c:6379": row.reply}}
			found, err := NewFinder(u, n.open).Find(t.Context())
			if row.found == "" {
				require.ErrorContains(t, err, "find the node of the Cluster")
				require.True(t, Outage(err))
				require.Len(t, n.asked, 3, "each was asked")
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.found, found)
			require.Len(t, n.asked, 1)
		})
	}
}

// The one that answered last is asked first; a silent one costs a share of the time; other nodes of the Cluster
// are asked when those of the URL are gone.
func TestFinderRemembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, err := ParseURL("redis+cluster://a,b", ForPrefix("{foo}"))
		require.NoError(t, err)
		all := []any{[]any{int64(0), int64(16383), at("x", 1), at("y", 2)}}
		n := &nodes{replies: map[string]any{"b:6379": all}}
		f := NewFinder(u, n.open)
		find := func() []string {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			n.asked = nil
			found, err := f.Find(ctx)
			require.NoError(t, err)
			require.Equal(t, "x:1", found)
			return n.asked
		}
		require.Equal(t, []string{"a:6379", "b:6379"}, find())
		require.Equal(t, []string{"b:6379"}, find())
		f.Doubt()
		require.Equal(t, []string{"a:6379", "b:6379"}, find(), "after a doubt another one is asked first")
		n.replies = map[string]any{"y:2": all}
		require.Equal(t, []string{"b:6379", "a:6379", "x:1", "y:2"}, find())
		require.Equal(t, []string{"y:2"}, find())
		var none *Finder
		none.Doubt()
	})
}

// A refusal by a sentinel is no refusal by the server, but a wrong password stays one.
func TestFinderTellsDenials(t *testing.T) {
	t.Parallel()
	u, err := ParseURL("redis+sentinel://a,b/main")
	require.NoError(t, err)
	n := &nodes{replies: map[string]any{"a:26379": NewServerError("WRONGPASS no"), "b:26379": nil}}
	_, err = NewFinder(u, n.open).Find(t.Context())
	require.ErrorContains(t, err, "find the primary main by its sentinels: a:26379: WRONGPASS no; b:26379: it knows no primary of that name")
	require.NotEmpty(t, Denial(err))
	require.True(t, Outage(err))
	n = &nodes{replies: map[string]any{"a:26379": NewServerError("WRONGTYPE no"), "b:26379": []any{"::1", "7"}}}
	found, err := NewFinder(u, n.open).Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, "[::1]:7", found)
}

func TestSlot(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]int64{"{foo}": 12182, "a{foo}b{bar}": 12182, "{123456789}": 0x31c3, "{bar}:x": 5061} {
		require.Equal(t, want, Slot(prefix), prefix)
	}
}
