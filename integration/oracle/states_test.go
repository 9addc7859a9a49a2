package oracle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

func TestStates(t *testing.T) {
	t.Parallel()
	job := payload("1", `"created_at":1`)
	save := func(version string) []string { return c("HSET it-1 belay_version " + version + " belay_created 1 c 5") }
	end := c("LREM "+mine+" -1", job)
	for name, history := range map[string]struct {
		history func(a *aof)
		rules   []oracle.Rule
	}{
		"written by a run, and gone with the job": {history: func(a *aof) {
			a.step(save("1"))
			a.step(save("2"))
			a.settle(1, 0, end, c("DEL it-1"))
		}},
		"with the step that requeues it": {history: func(a *aof) {
			a.settle(0, 0, end, c("RPUSH "+queue, job), save("1"))
		}},
		"after that": {history: func(a *aof) {
			a.settle(0, 0, end, c("RPUSH "+queue, job))
			a.step(save("1"))
		}, rules: []oracle.Rule{oracle.States}},
		"backwards": {history: func(a *aof) { a.step(save("2")); a.step(save("2")) }, rules: []oracle.Rule{oracle.States}},
		"a cursor that goes back": {history: func(a *aof) {
			a.step(save("1"))
			a.step(c("HSET it-1 belay_version 2 belay_created 1 c 4"))
		}, rules: []oracle.Rule{oracle.States}},
		"left behind": {history: func(a *aof) {
			a.step(save("1"))
			a.settle(1, 0, end)
		}, rules: []oracle.Rule{oracle.States}},
		"a Ruby process' own": {history: func(a *aof) { a.step(c("HSET it-1 cancelled 1")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			a.push(job)
			a.take()
			history.history(a)
			require.Equal(t, history.rules, a.broken(t))
		})
	}
}
