package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestActIsPossibleWhereTheTableSays(t *testing.T) {
	promises(t, map[string]func(w *world){
		"and nowhere else": func(w *world) {
			for _, home := range []Home{Retries(), Scheduled(), Dead(), Waiting("q"), Quarantined("q")} {
				for _, action := range []Action{Retry, Reschedule, Move, Kill, Delete, "shred"} {
					task := Task{Home: home, Action: action, Selection: Selection{All: true}, To: "r", At: time.Unix(2e9, 0)}
					_, err := w.inspector.Act(w.Context(), task, nil)
					require.Equal(w, action.PossibleIn(home.Place()), err == nil, "%s in %s: %v", action, home, err)
				}
			}
		},
	})
}

func TestActionsIn(t *testing.T) {
	t.Parallel()
	for place, want := range map[Place][]Action{
		PlaceQueue: {Move, Kill, Delete}, PlaceQuarantined: {Retry, Move, Kill, Delete}, PlaceScheduled: {Retry, Reschedule, Move, Kill, Delete},
		PlaceRetry: {Retry, Reschedule, Move, Kill, Delete}, PlaceDead: {Retry, Move, Delete}, PlaceRunning: nil, PlaceCompleted: nil,
	} {
		require.Equal(t, want, ActionsIn(place), place)
	}
	require.Equal(t, []Action{Retry, Move, Kill, Delete}, ActionsIn(PlaceQueue, PlaceQuarantined))
	require.Nil(t, ActionsIn())
	for _, action := range ActionsIn(PlaceRetry) {
		require.True(t, strings.HasPrefix(action.Past(), strings.TrimSuffix(string(action), "y")), action)
		require.Equal(t, action == Kill || action == Delete, action.Destroys(), action)
	}
}
