package oracle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// fire is a step as the script tick takes it, of the tick at this second; noted is what it notes.
func (a *aof) fire(jid string, second int64, noted int64) {
	at := func(second int64) string { return time.Unix(start+second, 0).UTC().Format(time.RFC3339) }
	text := payload(jid, fmt.Sprintf(`"belay_tick":{"name":"n","at":%q}`, at(second)))
	a.step(c("LPUSH "+queue, text), c("SADD queues q"), c("HSET belay:periodic:last n", at(noted)), c("ZADD belay:periodic 9 n"))
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]struct {
		history func(a *aof)
		rules   []oracle.Rule
		options []oracle.Option
	}{
		"each once, in order": {history: func(a *aof) {
			a.at(3)
			a.fire("1", 1, 1)
			a.fire("2", 3, 3)
			a.step(c("LPUSH "+queue, payload("3", `"belay_tick":{"name":"n"}`))) // an operator's, as version 0.1 wrote it
			a.step(c("LPUSH "+queue, payload("4", `"belay_tick":{"name":"n","at":"2020-01-01T00:00:00Z","manual":true}`)))
		}},
		"twice":     {history: func(a *aof) { a.at(3); a.fire("1", 1, 1); a.fire("2", 1, 1) }, rules: []oracle.Rule{oracle.Tick}},
		"backwards": {history: func(a *aof) { a.at(3); a.fire("1", 2, 2); a.fire("2", 1, 1) }, rules: []oracle.Rule{oracle.Tick}},
		"early":     {history: func(a *aof) { a.at(3); a.fire("1", 4, 4) }, rules: []oracle.Rule{oracle.Early}},
		"not noted": {history: func(a *aof) { a.at(3); a.fire("1", 2, 1) }, rules: []oracle.Rule{oracle.Tick}},
		"after a reset": {history: func(a *aof) {
			a.at(3)
			a.fire("1", 2, 2)
			a.step(c("HSET belay:periodic:last n", "since 1"))
			a.fire("2", 2, 2)
		}, options: []oracle.Option{oracle.ClockMoves()}},
		"without a step of the clock": {history: func(a *aof) {
			a.at(3)
			a.fire("1", 2, 2)
			a.step(c("HSET belay:periodic:last n", "since 1"))
			a.fire("2", 2, 2)
		}, rules: []oracle.Rule{oracle.Tick}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &aof{}
			history.history(a)
			require.Equal(t, history.rules, a.broken(t, history.options...))
		})
	}
}
