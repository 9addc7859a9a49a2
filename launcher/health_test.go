package launcher

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	l := &Launcher{orders: make(chan order, 64)}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.True(t, l.Turns(ctx), "there is no manager yet")
	l.crew.Store(&crew{})
	require.False(t, l.Turns(ctx), "nobody comes to the order")
	require.False(t, l.Turns(ctx))
	require.Len(t, l.orders, 1, "asking again fills nothing up")
	m := &manager{}
	defer close(l.orders)
	go func() {
		for what := range l.orders {
			m.obey(what)
		}
	}()
	patient, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.True(t, l.Turns(patient))
	l.over.Store(true)
	require.True(t, l.Turns(ctx), "there is no manager any more")
}
