package belaytest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

// A test of an encrypted class is the same as of any other; what it prints of jobs that it cannot open shows
// nothing.
func TestAnEncryptedClassIsTestedLikeAnyOther(t *testing.T) {
	t.Parallel()
	keys, err := belay.ParseKeys("k1:" + strings.Repeat("ab", 32))
	require.NoError(t, err)
	type card struct {
		User   int
		Number string
	}
	charge := belay.Define[card]("Charge", belay.Encrypted(keys), belay.Unique(belay.UntilExecuted))
	k := belaytest.New(t)
	got := card{}
	k.Serve(func(s *belay.Server) {
		charge.Handle(s, func(_ context.Context, args card) error { got = args; return nil })
	})
	for range 2 {
		_, err = charge.Enqueue(t.Context(), k.Client(), card{42, "4111"})
		require.NoError(t, err)
	}
	waiting := belaytest.RequireEnqueued(t, k, charge, card{42, "4111"})
	require.Equal(t, card{42, "4111"}, belaytest.Args(t, charge, waiting.Job))
	require.NotContains(t, waiting.Job.Raw(), "4111")
	require.Equal(t, `Charge [42,"[encrypted, key k1]"] in queue default`, waiting.String())
	belaytest.RequireEnqueuedMany(t, k, charge, []card{{42, "4111"}})
	belaytest.RequireEnqueuedFunc(t, k, charge, func(args card) bool { return args.Number == "4111" })
	v := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		belaytest.RequireEnqueued(v, k, charge, card{42, "4222"})
	}()
	<-done
	require.Contains(t, v.text, `: different arguments [42,"4111"]`)
	belaytest.Wire(t, charge, card{42, "4111"}, `{"class":"Charge","args":[42,"4111"]}`)
	runs := k.Drain()
	require.Len(t, runs, 1)
	require.Equal(t, `Charge [42,"[encrypted, key k1]"], attempt 1`, runs[0].String())
	require.Equal(t, card{42, "4111"}, got)
	belaytest.Idempotent(t, charge, func(_ context.Context, args card) error { got = args; return nil }, card{43, "4111"}, func() any { return got })
}
