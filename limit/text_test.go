package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRatesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, rate := range map[string]Rate{
		"100/1m": Window(100, time.Minute), "5/1h": Window(5, time.Hour), "leaky:7/1.5s": Leaky(7, 1500*time.Millisecond), "1/10h30m": Window(1, 630*time.Minute),
	} {
		read, err := ParseRate(text)
		require.NoError(t, err)
		require.Equal(t, rate, read)
		require.Equal(t, text, rate.String())
		require.Equal(t, rate, RateOf(Limit{Name: "n", Rate: rate}.Size()))
	}
	for _, text := range []string{"", "100", "100/", "/1m", "x/1m", "100/minute", "leaky:", "leaky 100/1m", "1e3/1m"} {
		_, err := ParseRate(text)
		require.Error(t, err, text)
	}
	require.Empty(t, Rate{}.String())
	require.Equal(t, Rate{}, RateOf(Limit{Name: "n"}.Size()))
}
