package oracle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
)

// Every way that there is, gone as Belay goes it.
func TestACleanHistoryHasNoViolations(t *testing.T) {
	t.Parallel()
	p := payload
	for name, history := range map[string]struct {
		history func(a *aof)
		edges   []string
		total   string
	}{
		"done": {func(a *aof) {
			a.push(p("1"))
			a.take()
			a.settle(1, 0, c("LREM "+mine+" -1", p("1")))
		}, []string{"nowhere->queue (accepted)", "queue->working (taken)", "working->nowhere (ended)"}, "1 done"},
		"discarded with an error": {func(a *aof) {
			a.push(p("1"))
			a.take()
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")))
		}, []string{"working->nowhere (ended)"}, "1 done"},
		"scheduled, promoted, failed, failed again, promoted and killed": {func(a *aof) {
			a.step(c("ZADD schedule "+fmt.Sprint(start+2), p("1")))
			a.at(2)
			a.step(c("ZREM schedule", p("1")), c("LPUSH "+queue, p("1", fmt.Sprintf(`"enqueued_at":%d.5`, start+2))))
			a.take()
			a.settle(1, 1, c("LREM "+mine+" -1", p("1", fmt.Sprintf(`"enqueued_at":%d.5`, start+2))),
				c("ZADD retry "+fmt.Sprint(start+3), p("1", fmt.Sprintf(`"enqueued_at":%d.5`, start+2), failed)))
			a.at(4)
			a.step(c("ZREM retry", p("1", fmt.Sprintf(`"enqueued_at":%d.5`, start+2), failed)),
				c("LPUSH "+queue, p("1", fmt.Sprintf(`"enqueued_at":%d`, (start+4)*1000), failed)))
			a.take()
			a.settle(1, 1, c("LREM "+mine+" -1", p("1", fmt.Sprintf(`"enqueued_at":%d`, (start+4)*1000), failed)),
				c("ZADD dead 1", p("1", fmt.Sprintf(`"enqueued_at":%d`, (start+4)*1000), strings.ReplaceAll(failed, `count":0`, `count":1,"retried_at":3`))))
		}, []string{"schedule->queue (promoted)", "working->retry (retried)", "retry->queue (promoted)", "working->dead (died)"}, "1 dead"},
		"snoozed and requeued": {func(a *aof) {
			a.push(p("1"))
			a.take()
			a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("RPUSH "+queue, p("1")))
			a.take()
			a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("ZADD schedule 9", p("1")))
		}, []string{"working->queue (requeued)", "working->schedule (snoozed)"}, "1 in schedule"},
		"a crash, with a field that is there twice": {func(a *aof) {
			a.push(p("1", `"class":"D"`))
			a.take()
			a.recover(c("LREM "+mine+" 1", p("1", `"class":"D"`)), c("RPUSH "+queue, p("1", `"class":"D"`, `"interrupted_count":1`)))
		}, []string{"working->queue (recovered)"}, "1 in queue"},
		"three crashes, the last one alone": {func(a *aof) {
			crash := func(n int) string { return fmt.Sprintf(`"interrupted_count":%d`, n) }
			a.push(p("1"))
			a.take()
			a.recover(c("LREM "+mine+" 1", p("1")), c("RPUSH "+queue, p("1", crash(1))))
			for n, from := range []string{queue, quarantine} {
				identity := []string{"h:3:cc", "h:4:dd"}[n]
				to := []string{"belay:working:q:h:3:cc", "belay:quarantine-run:h:4:dd"}[n]
				a.step(c("HSET belay:process:"+identity+" ttl_ms 6000 beat_ms 1500 queues", `["q"]`), c("ZADD belay:alive "+ms(10)+" "+identity))
				old, now, home := p("1", crash(1)), p("1", crash(2), `"interrupted_at":5.5`), c("RPUSH "+quarantine)
				if n == 1 {
					old, now, home = now, p("1", crash(3), `"interrupted_at":5.5`, `"error_class":"E"`, `"error_message":"m"`), c("ZADD dead 1")
					a.step(c("HSET belay:process:"+identity+" quarantine_queue q"), c("LMOVE "+from+" "+to+" RIGHT LEFT"))
				} else {
					a.step(c("LMOVE " + from + " " + to + " RIGHT LEFT"))
				}
				a.look(identity, 10.1, 11.6, 13.2)
				a.declareDead(identity, 14, append(count(n, n), c("LREM "+to+" 1", old), append(home, now))...)
			}
		}, []string{"working->queue (recovered)", "working->quarantine (recovered)", "quarantine->quarantine run (taken)", "quarantine run->dead (died)"}, "1 dead"},
		"a quarantined job is requeued, recovered, and done": {func(a *aof) {
			a.step(c("ZADD retry 1", p("1", `"interrupted_count":2`)))
			a.step(c("ZREM retry", p("1", `"interrupted_count":2`)), c("LPUSH "+quarantine, p("1", `"interrupted_count":2`, fmt.Sprintf(`"enqueued_at":%d`, start))))
			text := p("1", `"interrupted_count":2`, fmt.Sprintf(`"enqueued_at":%d`, start))
			takeAlone := func() {
				a.step(c("HSET belay:process:"+me+" quarantine_queue q"), c("LMOVE "+quarantine+" "+alone+" RIGHT LEFT"))
			}
			takeAlone()
			a.settle(0, 0, c("LREM "+alone+" -1", text), c("RPUSH "+quarantine, text))
			takeAlone()
			a.settle(0, 0, c("LREM "+alone+" -1", text), c("LPUSH "+quarantine, text)) // it may not start now
			takeAlone()
			a.settle(1, 0, c("LREM "+alone+" -1", text))
		}, []string{"retry->quarantine (promoted)", "quarantine run->quarantine (requeued)", "quarantine run->nowhere (ended)"}, "1 done"},
		"found with the dead": {func(a *aof) {
			a.step(c("ZADD belay:tombstones NX "+ms(1)+" "+me), c("HSET belay:process:"+me+" emptied 1"), c("ZREM belay:alive "+me))
			a.push(p("1"))
			a.take() // a move that came late
			a.step(c("LREM "+mine+" 1", p("1")), c("RPUSH "+queue, p("1")))
		}, []string{"working->queue (found)"}, "1 in queue"},
		"requeued by a process that does not know yet that it is dead": {func(a *aof) {
			a.step(c("ZADD belay:alive XX INCR 300 " + me))
			a.push(p("1"))
			a.take()
			a.recover()
			a.step(c("ZADD belay:alive XX INCR 1500 " + me)) // its expiry stays in the past
			a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("RPUSH "+queue, p("1")))
		}, []string{"working->queue (requeued)"}, "1 in queue"},
		"what cannot be read, twice, out of every place": {func(a *aof) {
			kept := make(map[string]string) // one text for twins
			for _, bad := range []string{"{", "{", `{"class":"C","jid":"a","args":{}}`} {
				if kept[bad] == "" {
					kept[bad] = unread(bad)
				}
				a.push(bad)
				a.take()
				a.settle(1, 1, c("LREM "+mine+" -1", bad), c("ZADD dead 1", kept[bad]))
			}
			for _, set := range []string{"schedule", "retry"} {
				a.step(c("ZADD "+set+" 1", "null"+set))
				a.step(append(count(1, 1), c("ZREM "+set, "null"+set), c("ZADD dead 2", unread("null"+set)))...)
			}
		}, []string{"working->dead (unreadable)", "schedule->dead (unreadable)", "retry->dead (unreadable)"}, "1 merged"},
		"what is too large, with its reason and all its bytes": {func(a *aof) {
			for n, text := range []string{p("large", `"x":"`+strings.Repeat("x", 1200000)+`"`), " { \"x\"" + strings.Repeat("x", 1200000)} {
				a.push(text)
				a.take()
				brace := strings.Index(text, "{") + 1
				large := text[:brace] + job.TooLargeReason(len(text), 1114112, time.Now(), job.Seconds) + "," + text[brace:]
				a.step(append(count(1, 1), c("LREM "+mine+" 1", text), c(fmt.Sprint("ZADD dead ", n), large))...)
			}
		}, []string{"working->dead (unreadable)"}, ""},
		"a full dead set is trimmed by the step that adds to it": {func(a *aof) {
			for _, jid := range []string{"1", "2"} {
				a.push(p(jid))
				a.take()
				moves := [][]string{c("LREM "+mine+" -1", p(jid)), c("ZADD dead "+jid, p(jid, failed))}
				if jid == "2" {
					moves = append(moves, c("ZREMRANGEBYRANK dead 0 0"))
				}
				a.settle(1, 1, moves...)
			}
		}, []string{"dead->nowhere (trimmed)"}, "1 dead, 1 trimmed"},
		"and by a recovery, and by a due job that cannot be read": {func(a *aof) {
			a.push("{")
			a.take()
			a.recover(append(count(1, 1), c("LREM "+mine+" 1", "{"), c("ZADD dead 1", unread("{")))...)
			a.push("[")
			a.take()
			a.recover(append(count(1, 1), c("LREM "+mine+" 1", "["), c("ZADD dead 2", unread("[")), c("ZREMRANGEBYRANK dead 0 0"))...)
			a.step(c("ZADD schedule 1", "null"))
			a.step(append(count(1, 1), c("ZREM schedule", "null"), c("ZADD dead 3", unread("null")), c("ZREMRANGEBYRANK dead 0 0"))...)
		}, []string{"schedule->dead (unreadable)", "dead->nowhere (trimmed)"}, "1 dead, 2 trimmed"},
		"queue names are not taken apart": {func(a *aof) {
			a.step(c("LPUSH queue:a:b", p("1")))
			a.step(c("LMOVE queue:a:b belay:working:a:b:h:1:aa RIGHT LEFT"))
			a.settle(1, 0, c("LREM belay:working:a:b:h:1:aa -1", p("1")))
		}, []string{"working->nowhere (ended)"}, "1 done"},
		"a flush ends all, and a parked move still comes": {func(a *aof) {
			a.push(p("1"))
			a.take()
			a.step(c("FLUSHALL"))
			a.push(p("2"))
			a.take()
			a.step(append([][]string{c("LREM "+mine+" -1", p("2"))}, count(1, 0)...)...)
			a.push(p("1"))
		}, []string{"working->nowhere (ended)"}, "1 done, 1 flushed"},
		"a process is forgotten": {func(a *aof) {
			a.step(c("ZADD belay:tombstones NX "+ms(1)+" "+me), c("ZREM belay:alive "+me))
			a.step(c("ZREM belay:tombstones "+me), c("DEL belay:process:"+me))
		}, nil, "0 jobs"},
		"a broken counter hinders no end": {func(a *aof) {
			a.push(p("1"))
			a.step(c("SADD stat:processed x"))
			a.take()
			a.settle(0, 0, c("LREM "+mine+" -1", p("1")))
		}, nil, "1 done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			history.history(a)
			report := a.replay(t, oracle.Allow(oracle.Nowhere, oracle.Retry)) // where some begin their lives here
			require.Empty(t, report.Violations)
			var edges []string
			for edge := range report.Edges {
				edges = append(edges, edge.String())
			}
			for _, edge := range history.edges {
				require.Contains(t, edges, edge)
			}
			require.Contains(t, report.String(), history.total)
		})
	}
}

// One breach of each rule, planted in an otherwise clean log.
func TestABreachIsSeen(t *testing.T) {
	t.Parallel()
	p := payload
	taken := func(a *aof) { a.push(p("1")); a.take() }
	dead := func(a *aof, moves ...[]string) { a.recover(moves...) }
	scheduled := func(a *aof) { a.step(c("ZADD schedule "+fmt.Sprint(start), p("1"))) }
	promoted := p("1", fmt.Sprintf(`"enqueued_at":%d`, start))
	quarantined := func(a *aof) {
		a.step(c("ZADD schedule 1", p("1", `"interrupted_count":2`)))
		a.step(c("ZREM schedule", p("1", `"interrupted_count":2`)), c("LPUSH "+quarantine, p("1", `"interrupted_count":2`, fmt.Sprintf(`"enqueued_at":%d`, start))))
	}
	suspected := p("1", `"interrupted_count":2`, fmt.Sprintf(`"enqueued_at":%d`, start))
	for name, breach := range map[string]struct {
		breach func(a *aof)
		rules  []oracle.Rule
	}{
		"RPOP without a push": {func(a *aof) { a.push(p("1")); a.step(c("RPOP " + queue)) }, []oracle.Rule{oracle.Lost}},
		"a queue deleted":     {func(a *aof) { a.push(p("1")); a.step(c("DEL " + queue)) }, []oracle.Rule{oracle.Lost}},
		"a queue overwritten": {func(a *aof) { a.push(p("1")); a.step(c("SET " + queue + " x")) }, []oracle.Rule{oracle.Lost}},
		"no count after a broken counter was removed": {func(a *aof) {
			a.step(c("SADD stat:processed x"))
			a.step(c("DEL stat:processed"))
			taken(a)
			a.settle(0, 0, c("LREM "+mine+" -1", p("1")))
		}, []oracle.Rule{oracle.Counters}},
		"pushed twice":               {func(a *aof) { a.push(p("1")); a.push(p("1")) }, []oracle.Rule{oracle.Doubled}},
		"pushed again after its end": {func(a *aof) { taken(a); a.settle(1, 0, c("LREM "+mine+" -1", p("1"))); a.push(p("1")) }, []oracle.Rule{oracle.Again}},
		"ZREM, then LPUSH":           {func(a *aof) { scheduled(a); a.step(c("ZREM schedule", p("1"))); a.step(c("LPUSH "+queue, promoted)) }, []oracle.Rule{oracle.Lost, oracle.Again}},
		"LPUSH, then ZREM":           {func(a *aof) { scheduled(a); a.step(c("LPUSH "+queue, promoted)); a.step(c("ZREM schedule", p("1"))) }, []oracle.Rule{oracle.Doubled, oracle.Lost}},
		"retry, then ack, in two steps": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("ZADD retry 1", p("1", failed)))
			a.step(c("LREM "+mine+" -1", p("1")))
		}, []oracle.Rule{oracle.Doubled, oracle.Counters, oracle.Counters}},
		"ack, then retry, in two steps": {func(a *aof) {
			taken(a)
			a.step(c("LREM "+mine+" -1", p("1")))
			a.settle(1, 1, c("ZADD retry 1", p("1", failed)))
		}, []oracle.Rule{oracle.Counters, oracle.IllegalEdge, oracle.Counters}},
		"a settle that does not ask": {func(a *aof) {
			taken(a)
			a.settle(1, 0, c("LREM "+mine+" -1", p("1")))
			a.settle(1, 1, c("ZADD retry 1", p("1", failed)))
		}, []oracle.Rule{oracle.IllegalEdge, oracle.Counters}},
		"taken by two":                    {func(a *aof) { taken(a); a.step(c("LPUSH belay:working:q:"+other, p("1"))) }, []oracle.Rule{oracle.Doubled}},
		"taken into another queue's list": {func(a *aof) { a.push(p("1")); a.step(c("LMOVE " + queue + " belay:working:a:b:h:1:aa RIGHT LEFT")) }, []oracle.Rule{oracle.IllegalEdge}},
		"taken into a list of none":       {func(a *aof) { a.push(p("1")); a.step(c("LMOVE " + queue + " belay:working:q:h:9:zz RIGHT LEFT")) }, []oracle.Rule{oracle.CannotJudge, oracle.Lost}},
		"taken from the wrong end":        {func(a *aof) { a.push(p("1")); a.push(p("2")); a.step(c("LMOVE " + queue + " " + mine + " LEFT LEFT")) }, []oracle.Rule{oracle.WrongEnd}},
		"pushed to the wrong end":         {func(a *aof) { a.step(c("RPUSH "+queue, p("1"))) }, []oracle.Rule{oracle.WrongEnd}},
		"requeued to the wrong end":       {func(a *aof) { taken(a); a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("LPUSH "+queue, p("1"))) }, []oracle.Rule{oracle.WrongEnd}},
		"requeued to another queue":       {func(a *aof) { taken(a); a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("RPUSH queue:a:b", p("1"))) }, []oracle.Rule{oracle.IllegalEdge}},
		"requeued with a counted crash": {func(a *aof) {
			taken(a)
			a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("RPUSH "+queue, p("1", `"interrupted_count":1`)))
		}, []oracle.Rule{oracle.Interruptions}},
		"requeued with a counted retry": {func(a *aof) {
			taken(a)
			a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("RPUSH "+queue, p("1", `"retry_count":0`)))
		}, []oracle.Rule{oracle.Bytes}},
		"requeued and counted": {func(a *aof) { taken(a); a.settle(1, 0, c("LREM "+mine+" -1", p("1")), c("RPUSH "+queue, p("1"))) }, []oracle.Rule{oracle.Counters}},
		"recovered from the living": {func(a *aof) {
			taken(a)
			a.step(c("LREM "+mine+" 1", p("1")), c("RPUSH "+queue, p("1", `"interrupted_count":1`)))
		}, []oracle.Rule{oracle.Living}},
		"the living declared dead":         {func(a *aof) { taken(a); a.look(me, 1, 2); a.declareDead(me, 2.1) }, []oracle.Rule{oracle.Living}},
		"declared dead at one look":        {func(a *aof) { taken(a); a.look(me, 5, 6.2); a.declareDead(me, 6.3) }, []oracle.Rule{oracle.Living}},
		"declared dead at two hasty looks": {func(a *aof) { a.look(me, 6.1, 6.2); a.declareDead(me, 6.3) }, []oracle.Rule{oracle.Living}},
		"declared dead by none":            {func(a *aof) { a.declareDead(me, 9) }, []oracle.Rule{oracle.Living}},
		"declared dead, but prolonged": {func(a *aof) {
			taken(a)
			a.step(c("ZADD belay:alive XX INCR 9000 " + me))
			a.recover()
		}, []oracle.Rule{oracle.Living}},
		"prolonged beyond its death": {func(a *aof) { dead(a); a.step(c("ZADD belay:alive XX INCR " + ms(15) + " " + me)) }, []oracle.Rule{oracle.Living}},
		"beats after its death":      {func(a *aof) { dead(a); a.step(c("ZADD belay:alive " + ms(15) + " " + me)) }, []oracle.Rule{oracle.Living}},
		"recovered without the first of a field that was there twice": {func(a *aof) {
			a.push(p("1", `"class":"C"`))
			a.take()
			dead(a, c("LREM "+mine+" 1", p("1", `"class":"C"`)), c("RPUSH "+queue, p("1", `"interrupted_count":1`)))
		}, []oracle.Rule{oracle.Bytes, oracle.Bytes}},
		"recovered and not counted": {func(a *aof) { taken(a); dead(a, c("LREM "+mine+" 1", p("1")), c("RPUSH "+queue, p("1"))) }, []oracle.Rule{oracle.Interruptions}},
		"recovered and counted twice": {func(a *aof) {
			taken(a)
			dead(a, c("LREM "+mine+" 1", p("1")), c("RPUSH "+queue, p("1", `"interrupted_count":2`)))
		}, []oracle.Rule{oracle.Interruptions}},
		"recovered and counted as retry": {func(a *aof) {
			taken(a)
			dead(a, c("LREM "+mine+" 1", p("1")), c("RPUSH "+queue, p("1", `"interrupted_count":1`, `"retry_count":0`)))
		}, []oracle.Rule{oracle.Bytes}},
		"recovered to the wrong end": {func(a *aof) {
			taken(a)
			dead(a, c("LREM "+mine+" 1", p("1")), c("LPUSH "+queue, p("1", `"interrupted_count":1`)))
		}, []oracle.Rule{oracle.WrongEnd}},
		"recovered and counted as a run": {func(a *aof) {
			taken(a)
			dead(a, append(count(1, 0), c("LREM "+mine+" 1", p("1")), c("RPUSH "+queue, p("1", `"interrupted_count":1`)))...)
		}, []oracle.Rule{oracle.Counters}},
		"a bystander killed by a crash": {func(a *aof) {
			taken(a)
			dead(a, c("LREM "+mine+" 1", p("1")), c("ZADD dead 1", p("1", `"interrupted_count":1`)))
		}, []oracle.Rule{oracle.RetryCount, oracle.Bytes, oracle.Counters}},
		"counted, though no process had it": {func(a *aof) {
			dead(a, c("HSET belay:process:"+me+" emptied 1"))
			taken(a)
			a.step(c("LREM "+mine+" 1", p("1")), c("RPUSH "+queue, p("1", `"interrupted_count":1`)))
		}, []oracle.Rule{oracle.Interruptions}},
		"a counter without an edge": {func(a *aof) { a.settle(1, 0) }, []oracle.Rule{oracle.Counters}},
		"an edge without a counter": {func(a *aof) { taken(a); a.settle(0, 0, c("LREM "+mine+" -1", p("1"))) }, []oracle.Rule{oracle.Counters}},
		"a failure not counted as failed": {func(a *aof) {
			taken(a)
			a.settle(1, 0, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", p("1", failed)))
		}, []oracle.Rule{oracle.Counters}},
		"more failures than runs":      {func(a *aof) { taken(a); a.settle(1, 2, c("LREM "+mine+" -1", p("1"))) }, []oracle.Rule{oracle.Counters}},
		"only the day's counter":       {func(a *aof) { taken(a); a.step(c("LREM "+mine+" -1", p("1")), c("INCRBY stat:processed 1")) }, []oracle.Rule{oracle.Counters}},
		"a burial unread that counts":  {func(a *aof) { a.push("{"); a.take(); a.settle(1, 0, c("LREM "+mine+" -1", "{"), c("ZADD dead 1", "{")) }, []oracle.Rule{oracle.Counters}},
		"a readable job killed unread": {func(a *aof) { taken(a); a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("ZADD dead 1", p("1"))) }, []oracle.Rule{oracle.Counters}},
		"a readable job that dies as if it were not": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD dead 1", unread(p("1"))))
		}, []oracle.Rule{oracle.IllegalEdge}},
		"an unreadable job whose text changes as it dies": {func(a *aof) {
			a.push("{")
			a.take()
			a.settle(1, 1, c("LREM "+mine+" -1", "{"), c("ZADD dead 1", unread("{ ")))
		}, []oracle.Rule{oracle.IllegalEdge}},
		"a due job killed unread": {func(a *aof) { scheduled(a); a.step(c("ZREM schedule", p("1")), c("ZADD dead 1", p("1"))) }, []oracle.Rule{oracle.IllegalEdge}},
		"args changed by a failure": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", strings.Replace(p("1", failed), "1.0", "1", 1)))
		}, []oracle.Rule{oracle.Bytes}},
		"a strange field lost by a failure": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", strings.Replace(p("1", failed), `,"x":{"y":[1]}`, "", 1)))
		}, []oracle.Rule{oracle.Bytes}},
		"fields put in another order": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", strings.Replace(p("1", failed), `"queue":"q","class":"C"`, `"class":"C","queue":"q"`, 1)))
		}, []oracle.Rule{oracle.Bytes}},
		"bytes changed by a snooze": {func(a *aof) {
			taken(a)
			a.settle(0, 0, c("LREM "+mine+" -1", p("1")), c("ZADD schedule 1", p("1", `"z":1`)))
		}, []oracle.Rule{oracle.Bytes}},
		"a retry not counted": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", p("1", `"error_class":"E"`)))
		}, []oracle.Rule{oracle.RetryCount}},
		"a retry counted twice": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", p("1", strings.ReplaceAll(failed, `count":0`, `count":1`))))
		}, []oracle.Rule{oracle.RetryCount}},
		"a crash counted by a failure": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", p("1", failed, `"interrupted_count":1`)))
		}, []oracle.Rule{oracle.Bytes}},
		"promoted early": {func(a *aof) {
			a.step(c("ZADD schedule "+fmt.Sprint(start+5), p("1")))
			a.step(c("ZREM schedule", p("1")), c("LPUSH "+queue, promoted))
		}, []oracle.Rule{oracle.Early}},
		"promoted to the wrong end": {func(a *aof) { scheduled(a); a.step(c("ZREM schedule", p("1")), c("RPUSH "+queue, promoted)) }, []oracle.Rule{oracle.WrongEnd}},
		"promoted to another queue": {func(a *aof) { scheduled(a); a.step(c("ZREM schedule", p("1")), c("LPUSH queue:a:b", promoted)) }, []oracle.Rule{oracle.IllegalEdge}},
		"promoted and not stamped":  {func(a *aof) { scheduled(a); a.step(c("ZREM schedule", p("1")), c("LPUSH "+queue, p("1"))) }, []oracle.Rule{oracle.Bytes}},
		"promoted with a stale stamp": {func(a *aof) {
			scheduled(a)
			a.step(c("ZREM schedule", p("1")), c("LPUSH "+queue, p("1", `"enqueued_at":1.5`)))
		}, []oracle.Rule{oracle.Bytes}},
		"promoted with a counted retry": {func(a *aof) {
			scheduled(a)
			a.step(c("ZREM schedule", p("1")), c("LPUSH "+queue, p("1", fmt.Sprintf(`"enqueued_at":%d,"retry_count":0`, start))))
		}, []oracle.Rule{oracle.Bytes}},
		"a dead job taken out": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD dead 1", p("1", failed)))
			a.step(c("ZREM dead", p("1", failed)))
		}, []oracle.Rule{oracle.Lost}},
		"a dead set trimmed for nothing": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD dead 1", p("1", failed)))
			a.step(c("ZREMRANGEBYRANK dead 0 0"))
		}, []oracle.Rule{oracle.Lost}},
		"a retry given another time": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", p("1", failed)))
			a.step(c("ZINCRBY retry 5", p("1", failed)))
		}, []oracle.Rule{oracle.IllegalEdge}},
		"a quarantined job with company": {func(a *aof) {
			quarantined(a)
			a.push(p("2"))
			a.take()
			a.step(c("HSET belay:process:"+me+" quarantine_queue q"), c("LMOVE "+quarantine+" "+alone+" RIGHT LEFT"))
		}, []oracle.Rule{oracle.NotAlone}},
		"a quarantined job whose queue is not named": {func(a *aof) { quarantined(a); a.step(c("LMOVE " + quarantine + " " + alone + " RIGHT LEFT")) }, []oracle.Rule{oracle.NotAlone}},
		"a quarantined job taken like any other":     {func(a *aof) { quarantined(a); a.step(c("LMOVE " + quarantine + " " + mine + " RIGHT LEFT")) }, []oracle.Rule{oracle.IllegalEdge}},
		"a quarantined job sent back to the queue": {func(a *aof) {
			quarantined(a)
			a.step(c("HSET belay:process:"+me+" quarantine_queue q"), c("LMOVE "+quarantine+" "+alone+" RIGHT LEFT"))
			a.settle(0, 0, c("LREM "+alone+" -1", suspected), c("RPUSH "+queue, suspected))
		}, []oracle.Rule{oracle.IllegalEdge}},
		"a quarantined job promoted to its queue": {func(a *aof) {
			a.step(c("ZADD schedule 1", p("1", `"interrupted_count":2`)))
			a.step(c("ZREM schedule", p("1", `"interrupted_count":2`)), c("LPUSH "+queue, suspected))
		}, []oracle.Rule{oracle.IllegalEdge}},
		"an innocent job promoted to the quarantine": {func(a *aof) {
			scheduled(a)
			a.step(c("ZREM schedule", p("1")), c("LPUSH "+quarantine, promoted))
		}, []oracle.Rule{oracle.IllegalEdge}},
		"a quarantined job recovered to its queue": {func(a *aof) {
			a.push(p("1", `"interrupted_count":1`))
			a.take()
			dead(a, c("LREM "+mine+" 1", p("1", `"interrupted_count":1`)), c("RPUSH "+queue, p("1", `"interrupted_count":2`)))
		}, []oracle.Rule{oracle.IllegalEdge}},
		"a crashing job that goes on": {func(a *aof) {
			quarantined(a)
			a.step(c("HSET belay:process:"+me+" quarantine_queue q"), c("LMOVE "+quarantine+" "+alone+" RIGHT LEFT"))
			dead(a, c("LREM "+alone+" 1", suspected), c("RPUSH "+quarantine, strings.Replace(suspected, `count":2`, `count":3`, 1)))
		}, []oracle.Rule{oracle.IllegalEdge}},
		"a crashing job killed too soon": {func(a *aof) {
			a.step(c("ZADD schedule 1", p("1", `"interrupted_count":1`)))
			a.step(c("ZREM schedule", p("1", `"interrupted_count":1`)), c("LPUSH "+quarantine, strings.Replace(suspected, `count":2`, `count":1`, 1)))
			a.step(c("HSET belay:process:"+me+" quarantine_queue q"), c("LMOVE "+quarantine+" "+alone+" RIGHT LEFT"))
			dead(a, append(count(1, 1), c("LREM "+alone+" 1", strings.Replace(suspected, `count":2`, `count":1`, 1)), c("ZADD dead 1", suspected))...)
		}, []oracle.Rule{oracle.IllegalEdge, oracle.IllegalEdge}},
		"a crashing job that dies and is not counted": {func(a *aof) {
			quarantined(a)
			a.step(c("HSET belay:process:"+me+" quarantine_queue q"), c("LMOVE "+quarantine+" "+alone+" RIGHT LEFT"))
			dead(a, c("LREM "+alone+" 1", suspected), c("ZADD dead 1", strings.Replace(suspected, `count":2`, `count":3`, 1)))
		}, []oracle.Rule{oracle.Counters}},
		"an unreadable entry of a dead process that is not counted": {func(a *aof) {
			a.push("{")
			a.take()
			dead(a, c("LREM "+mine+" 1", "{"), c("ZADD dead 1", unread("{")))
		}, []oracle.Rule{oracle.Counters}},
		"an unreadable due entry that is not counted": {func(a *aof) {
			a.step(c("ZADD schedule 1", "{"))
			a.step(c("ZREM schedule", "{"), c("ZADD dead 1", unread("{")))
		}, []oracle.Rule{oracle.Counters}},
		"an unreadable due entry that does not count as failed": {func(a *aof) {
			a.step(c("ZADD schedule 1", "{"))
			a.step(append(count(1, 0), c("ZREM schedule", "{"), c("ZADD dead 1", unread("{")))...)
		}, []oracle.Rule{oracle.Counters}},
		"a retry for another queue": {func(a *aof) {
			taken(a)
			a.settle(1, 1, c("LREM "+mine+" -1", p("1")), c("ZADD retry 1", strings.Replace(p("1", failed), `"queue":"q"`, `"queue":"z"`, 1)))
		}, []oracle.Rule{oracle.Bytes}},
		"a command that is not understood": {func(a *aof) { a.push(p("1")); a.step(c("LTRIM " + queue + " 0 5")) }, []oracle.Rule{oracle.CannotJudge}},
		"a key of jobs renamed":            {func(a *aof) { a.push(p("1")); a.step(c("RENAME " + queue + " queue:z")) }, []oracle.Rule{oracle.CannotJudge}},
		"what cannot be read is lost":      {func(a *aof) { a.push("{"); a.push("{"); a.step(c("RPOP " + queue)) }, []oracle.Rule{oracle.Lost}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			breach.breach(a)
			report := a.replay(t)
			var rules []oracle.Rule
			for _, violation := range report.Violations {
				rules = append(rules, violation.Rule)
			}
			require.ElementsMatch(t, breach.rules, rules, "%v", report.Violations)
			require.Contains(t, report.String(), fmt.Sprintf("%d violations", len(breach.rules)))
		})
	}
}
