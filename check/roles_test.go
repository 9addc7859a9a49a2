package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys of shards begin with one pattern, which is no wider than it must be.
func TestTheKeysOfShardsHaveOneBeginning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want     string
		prefixes []string
	}{
		{"", []string{""}},
		{"shop:", []string{"shop"}},
		{"shop:", []string{"shop", "shop", "shop"}},
		{"{shop:0}:", []string{"{shop:0}"}},
		{"{shop:[0-9]*}:", []string{"{shop:0}", "{shop:1}", "{shop:2}"}},
		{"{shop:[0-9]*}:", []string{"{shop:0}", "{shop:1}", "{shop:9}", "{shop:10}", "{shop:11}"}},
		{"{shop:*}:", []string{"{shop:a}", "{shop:b}", "{shop:0}"}},
		{"shop*:", []string{"shop", "shop2"}},
		{"*", []string{"", "shop"}},
		{`{s\*p:[0-9]*}:`, []string{"{s*p:0}", "{s*p:1}"}},
	} {
		require.Equal(t, c.want, beginning(c.prefixes), c.prefixes)
	}
}
