package belay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdempotence(t *testing.T) {
	t.Parallel()
	t.Run("is what the class says of being run twice", func(t *testing.T) {
		t.Parallel()
		for want, option := range map[idempotence]DefineOption{
			{}:                            Queue("a"),
			{declared: true, holds: true}: Idempotent(),
			{declared: true, reason: "the gateway has no keys"}: NotIdempotent("the gateway has no keys"),
		} {
			declared, holds, reason := Define[int]("A", option).Idempotence()
			require.Equal(t, want, idempotence{declared, holds, reason})
		}
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
