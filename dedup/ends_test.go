package dedup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// The payloads of Belay and Ruby are recognized by their two ends, whatever their length.
func TestNamesAndLockAreInTheTwoEnds(t *testing.T) {
	t.Parallel()
	ends := func(text string) (string, string) { return text[:1024], text[len(text)-1024:] }
	args := `["` + strings.Repeat("x", 5000) + `",{"class":"Inner","jid":"inner"}]`
	want := dedup.Lock{Digest: strings.Repeat("ab", 16), JID: "the-jid", Until: dedup.UntilExecuted, TTL: time.Hour}

	payload := job.Draft{Class: "Ours", Queue: "q", JID: "the-jid", ArgsJSON: args, Extra: []job.Edit{want.Edit()}}.Encode()
	parsed, lock := dedup.ReadEnds(ends(payload))
	require.Equal(t, "Ours", parsed.Class())
	require.Equal(t, want, lock)

	parsed, lock = dedup.ReadEnds(ends(`{"retry":true,"queue":"q","class":"Ruby","args":["` + strings.Repeat("x", 5000) + `"],"jid":"the-jid","created_at":1.5}`))
	require.Equal(t, "Ruby", parsed.Class())
	require.Equal(t, "the-jid", parsed.JID())
	require.True(t, lock.None())

	next := `{"retry":true,"belay_then":[{"args":[],"class":"Next","jid":"next","belay_unique":` + want.Edit().JSON + `}],"args":[]`
	parsed, lock = dedup.ReadEnds(next, strings.Repeat(" ", 100)+`,"class":"Ours","args":[],"jid":"the-jid"}`)
	require.Equal(t, "Ours", parsed.Class())
	require.Equal(t, "the-jid", parsed.JID())
	require.True(t, lock.None(), "what a next job has is not the job's own")

	parsed, lock = dedup.ReadEnds(strings.Repeat("[", 1024), strings.Repeat("]", 1024))
	require.Nil(t, parsed)
	require.True(t, lock.None())
}
