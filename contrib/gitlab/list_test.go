package gitlab

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// The names that GitLab's reliable fetch gives are read as its cleaner reads them, with all heartbeats that the
// process may have.
func TestGitLabListsAreReadFromTheirNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, queue, process string
		beats                []string
	}{
		{"working:queue:mail:web-1:12:abcdef012345", "mail", "web-1:12:abcdef012345", []string{"web-1-12-abcdef012345"}},
		{"working:queue:mail:web-1:12", "mail", "web-1:12", []string{"web-1-12"}},
		{"working:queue:a:b:w.example:12:ab", "a:b", "w.example:12:ab", []string{"b-w.example-12-ab", "w.example-12-ab"}},
		{"working:queue:a:1:2:3", "a", "1:2:3", []string{"1-2-3", "2-3"}},
		{"working:queue:mail:fe80::1:7:ab", "mail:fe80:", "1:7:ab", []string{"fe80--1-7-ab", "-1-7-ab", "1-7-ab"}}, // the cleaner's mistake
		{"working:queue:working:queue:x:h:1:ab", "working:queue:x", "h:1:ab", []string{"queue-x-h-1-ab", "x-h-1-ab", "h-1-ab"}},
	} {
		for _, prefix := range []string{"", "ns"} {
			k := newKeys(prefix, lua.DeadLimits{})
			found, ok := k.list(k.prefix + c.name)
			require.True(t, ok, c.name)
			require.Equal(t, c.queue, found.queue, c.name)
			require.Equal(t, c.process, found.process, c.name)
			var beats []string
			for _, beat := range c.beats {
				beats = append(beats, k.prefix+"reliable-fetcher-heartbeat-"+beat)
			}
			require.Equal(t, beats, found.heartbeats, c.name)
			require.Contains(t, found.heartbeats, k.heartbeat(found.process))
		}
	}
	k := newKeys("", lua.DeadLimits{})
	for _, name := range []string{"working:queue:mail", "working:queue:mail:h", "working:queue:mail:h:x", "working:mail:h:1:ab", "ns:working:queue:mail:h:1:ab",
		"working:queue:a" + strings.Repeat(":1", maxReadings+2)} {
		_, ok := k.list(name)
		require.False(t, ok, name)
	}
	six, _ := k.list("working:queue:mail:fe80::1:7:ab")
	require.Equal(t, "mail", six.queueOf("mail"), "the payload names a queue that the list's name can mean")
	require.Equal(t, "mail:fe80:", six.queueOf("elsewhere"), "the payload names a queue that it cannot mean")
	require.Equal(t, `a\*\[b\]:working:queue:*`, newKeys("a*[b]", lua.DeadLimits{}).pattern())
}
