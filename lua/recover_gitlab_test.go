package lua

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names that GitLab's reliable fetch gives, as its cleaner reads them; and all heartbeats that the process
// may have.
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
			k := NewKeys(prefix)
			list, ok := k.GitLabList(k.prefix + c.name)
			require.True(t, ok, c.name)
			require.Equal(t, c.queue, list.Queue, c.name)
			require.Equal(t, c.process, list.Process, c.name)
			var beats []string
			for _, beat := range c.beats {
				beats = append(beats, k.prefix+"reliable-fetcher-heartbeat-"+beat)
			}
			require.Equal(t, beats, list.Heartbeats(), c.name)
			require.Contains(t, list.Heartbeats(), k.GitLabHeartbeat(list.Process))
		}
	}
	k := NewKeys("")
	for _, name := range []string{"working:queue:mail", "working:queue:mail:h", "working:queue:mail:h:x", "working:mail:h:1:ab", "ns:working:queue:mail:h:1:ab",
		"working:queue:a" + strings.Repeat(":1", gitlabReadings+2)} {
		_, ok := k.GitLabList(name)
		require.False(t, ok, name)
	}
	six, _ := k.GitLabList("working:queue:mail:fe80::1:7:ab")
	require.Equal(t, "mail", six.QueueOf("mail"), "its jobs say which queue is meant")
	require.Equal(t, "mail:fe80:", six.QueueOf("elsewhere"), "but no other than the name can mean")
	require.Equal(t, `a\*\[b\]:working:queue:*`, NewKeys("a*[b]").GitLabPattern())
}

// With these prefixes, the gem's cleaner would take Belay's keys for lists of dead processes.
func TestPrefixesThatLookLikeGitLabsListsAreRefused(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"working", "working:queue", "a:working", "working:queue:x", "a:working:queue:b"} {
		require.ErrorContains(t, CheckPrefix(prefix), "choose another one", prefix)
	}
	for _, prefix := range []string{"", "shop", "workings", "networking", "working:x", "queue", "{working}"} {
		require.NoError(t, CheckPrefix(prefix), prefix)
	}
}

func TestRecoverGitLab(t *testing.T) {
	page := Orphans{Queue: "q", Entries: []Orphan{{Old: "c", New: "c+"}, {Old: "b", New: "b+"}, {Old: "gone", New: "gone+"}, {Old: "a", New: "a+"}}}
	keep(
		t,
		promise{"moves_what_is_there_to_the_head_of_the_queue_in_order", func(w *world) {
			list, _ := w.keys.GitLabList(w.keys.GitLabName("q", "h:1:ab"))
			w.redis("RPUSH", list.Key, "c", "b", "a", "rest")
			w.push("q", "waits")
			require.Equal(w, Recovered{State: StateDead, Left: 1, Moved: 3}, ask(w, w.keys.RecoverGitLab(list, page, w.today)))
			require.Equal(w, []string{"a+", "b+", "c+", "waits"}, w.waiting("q"))
			require.Equal(w, []string{"rest"}, w.list(list.Key))
			w.unchanged(func() {
				require.Equal(w, Recovered{State: StateDead, Left: 1}, ask(w, w.keys.RecoverGitLab(list, page, w.today)))
			})
		}},
		promise{"writes_nothing_while_any_process_that_the_name_can_mean_has_a_heartbeat", func(w *world) {
			list, _ := w.keys.GitLabList(w.keys.GitLabName("q", "fe80::1:7:ab"))
			w.redis("RPUSH", list.Key, "c", "b", "a")
			for _, beat := range list.Heartbeats() {
				w.redis("SET", beat, "1", "EX", "60")
				w.unchanged(func() {
					require.Equal(w, Recovered{State: StateAlive}, ask(w, w.keys.RecoverGitLab(list, page, w.today)))
				})
				w.redis("DEL", beat)
			}
		}},
		promise{"frees_the_lock_of_a_job_that_dies_and_keeps_that_of_one_that_goes_back", func(w *world) {
			list, _ := w.keys.GitLabList(w.keys.GitLabName("q", "h:1:ab"))
			w.unique("a")
			w.redis("LMOVE", w.keys.Queue("q"), list.Key, "RIGHT", "LEFT")
			recover := func(old, home string) Recovered {
				return ask(w, w.keys.RecoverGitLab(list, Orphans{Queue: "q", Entries: []Orphan{{Old: old, New: old + "+", Home: Home(home), Lock: lockOf("a")}}}, w.today))
			}
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, recover("a", "queue"))
			_, owner := w.lock()
			require.Equal(w, OwnerOf("a", "Mail"), owner)
			w.redis("LMOVE", w.keys.Queue("q"), list.Key, "RIGHT", "LEFT")
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, recover("a+", "dead"))
			_, owner = w.lock()
			require.Empty(w, owner)
			require.Equal(w, []string{"a++"}, w.sorted(w.keys.Dead()))
			require.Equal(w, 1, w.counter(w.keys.Failed()))
		}},
	)
}
