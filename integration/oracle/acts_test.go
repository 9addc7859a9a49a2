package oracle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// fresh is an enqueued_at of now.
var fresh = fmt.Sprintf(`"enqueued_at":%d.5`, start+1)

// What operators do by Belay's commands is lawful as those do it, and only where it is expected at all.
func TestActsAreLawfulAsBelayDoesThem(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(a *aof){
		"dead retried": func(a *aof) {
			a.step(c("ZADD schedule 1", payload("1", `"retry_count":25`, `"interrupted_count":3`)))
			a.step(c("ZREM schedule", payload("1", `"retry_count":25`, `"interrupted_count":3`)), c("ZADD dead 1", payload("1", `"retry_count":25`, `"interrupted_count":3`)))
			a.step(c("ZREM dead", payload("1", `"retry_count":25`, `"interrupted_count":3`)), c("LPUSH "+queue, payload("1", `"retry_count":24`, fresh)))
		},
		"killed, which trims a full dead set": func(a *aof) {
			for n, jid := range []string{"1", "2"} {
				a.step(c(fmt.Sprint("ZADD schedule ", start+900), payload(jid)))
				moves := [][]string{c("ZREM schedule", payload(jid)), c(fmt.Sprint("ZADD dead ", n), payload(jid))}
				if n > 0 {
					moves = append(moves, c("ZREMRANGEBYRANK dead 0 0"))
				}
				a.step(moves...)
			}
		},
		"scheduled run before its time": func(a *aof) {
			a.step(c(fmt.Sprint("ZADD schedule ", start+900), payload("1", `"retry_count":2`)))
			a.step(c("ZREM schedule", payload("1", `"retry_count":2`)), c("LPUSH "+queue, payload("1", `"retry_count":2`, fresh)))
		},
		"deleted from a queue": func(a *aof) {
			a.push(payload("1"))
			a.step(c("LREM "+queue+" 1", payload("1")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			step(a)
			require.Empty(t, a.replay(t, oracle.Acts()).Violations)
			require.NotEmpty(t, a.replay(t).Violations, "no option said that there would be operators")
		})
	}
}

func TestActsAreJudged(t *testing.T) {
	t.Parallel()
	old := payload("1", `"retry_count":2`, `"interrupted_count":2`)
	for name, bad := range map[string]struct {
		step [][]string
		rule oracle.Rule
	}{
		"the count as it was":      {[][]string{c("ZREM schedule", old), c("LPUSH "+queue, payload("1", `"retry_count":1`, fresh))}, oracle.RetryCount},
		"still quarantined":        {[][]string{c("ZREM schedule", old), c("LPUSH "+queue, payload("1", `"retry_count":2`, `"interrupted_count":2`, fresh))}, oracle.Interruptions},
		"at the head of its queue": {[][]string{c("ZREM schedule", old), c("RPUSH "+queue, payload("1", `"retry_count":2`, fresh))}, oracle.WrongEnd},
		"not stamped":              {[][]string{c("ZREM schedule", old), c("LPUSH "+queue, payload("1", `"retry_count":2`))}, oracle.Bytes},
		"changed when killed":      {[][]string{c("ZREM schedule", old), c("ZADD dead 1", payload("1"))}, oracle.Bytes},
		"in two places":            {[][]string{c("ZADD dead 1", old)}, oracle.Doubled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			a.step(c(fmt.Sprint("ZADD schedule ", start+900), old))
			a.step(bad.step...)
			violations := a.replay(t, oracle.Acts()).Violations
			require.Len(t, violations, 1, "%v", violations)
			require.Equal(t, bad.rule, violations[0].Rule)
		})
	}
}
