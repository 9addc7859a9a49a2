package belay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdempotence(t *testing.T) {
	t.Parallel()
	t.Run("is what the class says of being run twice", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, Idempotence{}, Define[int]("A").Idempotence())
		require.Equal(t, Idempotence{Declared: true, Holds: true}, Define[int]("A", Idempotent()).Idempotence())
		require.Equal(t, Idempotence{Declared: true, Reason: "the gateway has no keys"},
			Define[int]("A", NotIdempotent("the gateway has no keys")).Idempotence())
	})
	t.Run("that does not hold has a reason", func(t *testing.T) {
		t.Parallel()
		for _, reason := range []string{"", " \t"} {
			require.PanicsWithValue(t, `belay: Define "A": NotIdempotent needs a reason`, func() { Define[int]("A", NotIdempotent(reason)) })
		}
	})
	t.Run("is declared once", func(t *testing.T) {
		t.Parallel()
		for _, options := range [][]DefineOption{{Idempotent(), Idempotent()}, {Idempotent(), NotIdempotent("it is not")}} {
			require.PanicsWithValue(t, `belay: Define "A": its idempotence is declared twice`, func() { Define[int]("A", options...) })
		}
	})
}
