package oracle_test

import (
	"testing"

	"github.com/belayq/belay/integration/oracle"
)

func TestNextJobs(t *testing.T) {
	t.Parallel()
	second, third := payload("2", `"belay_after":"1"`), payload("3", `"belay_after":"1"`)
	first := payload("1", `"belay_then":[`+second+`,`+third+`]`)
	gone := c("LREM "+mine+" -1", first)
	push := func(text string) []string { return c("LPUSH queue:r", text) }
	taken := func(a *aof) { a.push(first); a.take() }
	judgeEach(t, map[string]judged{
		"stored in the step that ends the job before them": {history: func(a *aof) { taken(a); a.settle(1, 0, gone, push(second), push(third)) }},
		"of a job that is dropped":                         {history: func(a *aof) { taken(a); a.settle(1, 0, gone) }},
		"one of two":                                       {history: func(a *aof) { taken(a); a.settle(1, 0, gone, push(third)) }, rules: []oracle.Rule{oracle.Next}},
		"stored later": {history: func(a *aof) {
			taken(a)
			a.settle(1, 0, gone)
			a.step(push(second))
		}, rules: []oracle.Rule{oracle.Next}},
		"stored with a retry": {history: func(a *aof) {
			taken(a)
			a.settle(1, 1, gone, c("ZADD retry 1800000009", payload("1", `"belay_then":[`+second+`,`+third+`]`, failed)), push(second), push(third))
		}, rules: []oracle.Rule{oracle.Next, oracle.Next}},
		"a foreign field": {history: func(a *aof) {
			odd := payload("1", `"belay_then":{"x":1}`)
			a.push(odd)
			a.take()
			a.settle(1, 0, c("LREM "+mine+" -1", odd))
		}},
	})
}
