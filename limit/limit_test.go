package limit

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheckNamesEveryMistake(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{
		{Name: "webhooks", Concurrency: 5},
		{Name: "Geo_coder-2", Rate: Window(100, time.Minute)},
		{Name: strings.Repeat("n", 64), Concurrency: MaxConcurrency, Rate: Leaky(MaxLeaky, time.Second)},
		{Name: "x", Rate: Window(MaxWindow, MaxPer)},
		{Name: "x", Rate: Leaky(1, time.Millisecond)},
	} {
		require.NoError(t, l.Check())
	}
	for _, c := range []struct {
		limit Limit
		says  []string
	}{
		{Limit{}, []string{"its name", "limits nothing"}},
		{Limit{Name: "a:b", Concurrency: -1}, []string{"its name", "concurrency -1"}},
		{Limit{Name: "a.b", Concurrency: MaxConcurrency + 1}, []string{"its name", "concurrency 1000001"}},
		{Limit{Name: strings.Repeat("n", 65), Concurrency: 1}, []string{"its name"}},
		{Limit{Name: "a\n", Concurrency: 1}, []string{"its name"}},
		{Limit{Name: "a", Rate: Window(0, 0)}, []string{"a window of 0 starts", "a window of 0s"}},
		{Limit{Name: "a", Rate: Window(MaxWindow+1, time.Microsecond)}, []string{"1001 starts", "a window of 1µs"}},
		{Limit{Name: "a", Rate: Leaky(MaxLeaky+1, MaxPer+time.Millisecond)}, []string{"1000001 starts", "a leaky of 744h0m0.001s"}},
		{Limit{Name: "a", Rate: Leaky(5, 1500*time.Microsecond)}, []string{"a leaky of 1.5ms"}},
	} {
		err := c.limit.Check()
		for _, text := range c.says {
			require.ErrorContains(t, err, text)
		}
	}
}

func TestSizeIsWhatScriptsRead(t *testing.T) {
	t.Parallel()
	for size, l := range map[string]Limit{
		"5 none 0 0":         {Name: "n", Concurrency: 5},
		"- window 100 60000": {Name: "n", Rate: Window(100, time.Minute)},
		"2 leaky 7 1000":     {Name: "n", Concurrency: 2, Rate: Leaky(7, time.Second)},
	} {
		require.Equal(t, size, l.Size().String())
		require.Equal(t, l.Size(), l.Gate("key").Size)
	}
}

func TestGateNamesAreInjective(t *testing.T) {
	t.Parallel()
	l := Limit{Name: "n"}
	require.Equal(t, "n:", l.Gate("").Name)
	require.Equal(t, "n:a:b", l.Gate("a:b").Name)
	require.Equal(t, "n:"+strings.Repeat("ü", MaxKey/2), l.Gate(strings.Repeat("ü", MaxKey/2)).Name)
	replaced := make(map[string]bool)
	for _, key := range []string{strings.Repeat("x", MaxKey+1), "\xff", "a\nb", "a\x00b", "\u0085", "\x7f"} {
		name := l.Gate(key).Name
		require.Regexp(t, `\An:[0-9a-f]{32}\z`, name)
		require.False(t, replaced[name])
		replaced[name] = true
	}
}

func FuzzGateName(f *testing.F) {
	f.Add("tenant")
	f.Add("\n")
	f.Fuzz(func(t *testing.T, key string) {
		name := Limit{Name: "n"}.Gate(key).Name
		require.LessOrEqual(t, len(name), len("n:")+MaxKey)
		require.NotContains(t, name, "\n")
	})
}
