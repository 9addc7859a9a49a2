package drivertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

// Measure times the pipeline that a busy worker sends: two scripts, the first of which is given a hundred payloads
// and answers a word for each. It is for comparing adapters on one machine, and decides no test.
func Measure(b *testing.B, maker Maker) {
	client, err := maker(Redis(b).URL())
	require.NoError(b, err)
	defer func() { _ = client.Close() }()
	settle := driver.NewScript("settle", "#!lua\nlocal words = {}\nfor i = 1, #ARGV do words[i] = 'ok' end\nreturn words")
	take := driver.NewScript("take", "#!lua\nreturn {'empty', 0}")
	payloads := make([]string, 100)
	for i := range payloads {
		payloads[i] = strings.Repeat("x", 150)
	}
	calls := []driver.Call{
		{Script: settle, Keys: []string{"{b}1", "{b}2", "{b}3"}, Args: payloads},
		{Script: take, Keys: []string{"{b}1"}, Args: []string{"100"}},
	}
	require.NoError(b, client.Do(b.Context(), calls...)[0].Err)
	b.ReportAllocs()
	for b.Loop() {
		if replies := client.Do(b.Context(), calls...); replies[0].Err != nil {
			b.Fatal(replies[0].Err)
		}
	}
}
