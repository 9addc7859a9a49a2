package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestHomeOf(t *testing.T) {
	t.Parallel()
	for _, home := range []Home{Retries(), Scheduled(), Dead(), Waiting("q"), Quarantined("q")} {
		found, ok := HomeOf(newEntry(home, lua.Entry{Bytes: sample("A", "1")}).In, "q")
		require.True(t, ok, home)
		require.Equal(t, home, found)
	}
	for _, in := range []string{"", "retry", "running", "queue", "quarantined"} {
		_, ok := HomeOf(in, "")
		require.False(t, ok, in)
	}
}
