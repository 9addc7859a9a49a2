package driver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A scripted server has scripts by their digest, and may not know lines with flags.
type scripted struct {
	known map[string]bool
	old   bool
	sent  []string
}

func (s *scripted) send(calls []Call, replies []Reply, indexes []int, form ScriptForm) {
	for _, i := range indexes {
		verb, body := form.Words(calls[i].Script)
		s.sent = append(s.sent, verb+" "+calls[i].Script.Name())
		replies[i] = s.answer(verb, body)
	}
}

func (s *scripted) answer(verb, body string) Reply {
	switch {
	case verb == "EVALSHA" && !s.known[body]:
		return Reply{Err: NewServerError("NOSCRIPT No matching script")}
	case verb == "EVAL" && (s.old && body[0] == '#' || strings.Contains(body, "broken")):
		return Reply{Err: NewServerError("ERR Error compiling script (new function)")}
	case verb == "EVAL":
		s.known[sha(body)] = true
	}
	return Reply{Value: "ok"}
}

func TestDialect(t *testing.T) {
	t.Parallel()
	flagged, bare, broken := NewScript("flagged", "#!lua\nreturn 1"), NewScript("bare", "return 2"), NewScript("broken", "#!lua\nbroken")

	t.Run("sends_again_only_what_is_unknown_and_in_order", func(t *testing.T) {
		t.Parallel()
		var sender ScriptSender
		server := &scripted{known: map[string]bool{}}
		ok := []Reply{{Value: "ok"}, {Value: "ok"}}
		require.Equal(t, ok, sender.Do([]Call{{Script: bare}, {Script: flagged}}, server.send))
		require.Equal(t, ok, sender.Do([]Call{{Script: bare}, {Script: flagged}}, server.send))
		require.Equal(t, []string{"EVALSHA bare", "EVALSHA flagged", "EVAL bare", "EVAL flagged", "EVALSHA bare", "EVALSHA flagged"}, server.sent)
	})

	t.Run("learns_once_that_a_server_does_not_know_flags", func(t *testing.T) {
		t.Parallel()
		var sender ScriptSender
		server := &scripted{known: map[string]bool{}, old: true}
		for range 2 {
			require.Equal(t, []Reply{{Value: "ok"}}, sender.Do([]Call{{Script: flagged}}, server.send))
		}
		require.Equal(t, []string{"EVALSHA flagged", "EVAL flagged", "EVAL flagged", "EVALSHA flagged"}, server.sent)
	})

	t.Run("learns_nothing_from_a_script_that_never_compiles", func(t *testing.T) {
		t.Parallel()
		var sender ScriptSender
		server := &scripted{known: map[string]bool{}}
		require.Error(t, sender.Do([]Call{{Script: broken}}, server.send)[0].Err)
		require.Equal(t, []Reply{{Value: "ok"}}, sender.Do([]Call{{Script: flagged}}, server.send))
		_, digest := flagged.Text(true)
		require.True(t, server.known[digest])
	})

	t.Run("sends_what_announces_again_in_the_pipeline_of_the_scripts", func(t *testing.T) {
		t.Parallel()
		for _, old := range []bool{false, true} {
			var sender ScriptSender
			server := &scripted{known: map[string]bool{}, old: old}
			var pipelines [][]int
			replies := sender.Do([]Call{Command("GET", "a"), AwaitReplicas(2, time.Second), {Script: flagged}},
				func(calls []Call, replies []Reply, indexes []int, form ScriptForm) {
					pipelines = append(pipelines, slices.Clone(indexes))
					for k, i := range indexes {
						if calls[i].Script != nil {
							server.send(calls, replies, indexes[k:k+1], form)
						}
					}
				})
			require.NoError(t, replies[2].Err)
			// On another connection WAIT would count replicas that do not have what the script wrote.
			want := [][]int{{0, 1, 2}, {2, 1}}
			if old {
				want = append(want, []int{2, 1})
			}
			require.Equal(t, want, pipelines)
		}
	})

	t.Run("refuses_before_sending", func(t *testing.T) {
		t.Parallel()
		var sender ScriptSender
		replies := sender.Do([]Call{{}, Command("SUBSCRIBE", "c"), Command("WAIT", "1", "0")}, func([]Call, []Reply, []int, ScriptForm) { t.Error("sent") })
		for _, reply := range replies {
			var unsent *NotSentError
			require.ErrorAs(t, reply.Err, &unsent)
		}
	})
}
