package oracle_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
)

// An aof is an append-only file being written by hand, as a redis-server writes it.
type aof struct {
	text strings.Builder
	now  int64 // the second of the last annotation
}

// c is one command, its words apart by spaces; a word that holds any comes as an argument.
func c(words string, args ...string) []string { return append(strings.Fields(words), args...) }

func (a *aof) write(command []string) {
	fmt.Fprintf(&a.text, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&a.text, "$%d\r\n%s\r\n", len(word), word)
	}
}

// step is what one script wrote; a script with a single write has no MULTI.
func (a *aof) step(commands ...[]string) {
	if len(commands) == 1 {
		a.write(commands[0])
		return
	}
	a.write(c("MULTI"))
	for _, command := range commands {
		a.write(command)
	}
	a.write(c("EXEC"))
}

// at lets the clock be so many seconds after the start.
func (a *aof) at(second int64) {
	a.now = start + second
	fmt.Fprintf(&a.text, "#TS:%d\r\n", a.now)
}

// start is when every log here begins.
const start = 1_800_000_000

// ms is an instant by the millisecond, as beats and tombstones are written.
func ms(second float64) string { return strconv.FormatFloat((start+second)*1000, 'f', 0, 64) }

// save writes the file where a server would have it, after the base given, and answers the server's
// directory.
func (a *aof) save(t *testing.T, base string) string {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "appendonlydir")
	require.NoError(t, os.Mkdir(folder, 0o700))
	for name, text := range map[string]string{
		"appendonly.aof.manifest":   "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n",
		"appendonly.aof.1.base.aof": base,
		"appendonly.aof.1.incr.aof": a.text.String(),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return dir
}

// replay judges it.
func (a *aof) replay(t *testing.T, options ...oracle.Option) *oracle.Report {
	t.Helper()
	report, err := oracle.Replay(a.save(t, ""), options...)
	require.NoError(t, err)
	return report
}

// broken judges it, and returns the rule of each violation.
func (a *aof) broken(t *testing.T, options ...oracle.Option) (rules []oracle.Rule) {
	t.Helper()
	for _, violation := range a.replay(t, options...).Violations {
		rules = append(rules, violation.Rule)
	}
	return rules
}

// A judged history is one with the rules that it breaks, in order.
type judged struct {
	history func(a *aof)
	rules   []oracle.Rule
}

// judgeEach holds that the oracle finds in each history what breaks a rule, and nothing else.
func judgeEach(t *testing.T, histories map[string]judged) {
	t.Helper()
	for name, history := range histories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			history.history(a)
			require.Equal(t, history.rules, a.broken(t))
		})
	}
}

// The names in these logs: two processes that serve queue q.
const (
	me, other  = "h:1:aa", "h:2:bb"
	mine       = "belay:working:q:h:1:aa"
	queue      = "queue:q"
	quarantine = "belay:quarantine:q"
	alone      = "belay:quarantine-run:h:1:aa"
)

// begin is a log in which both processes have registered.
func begin() *aof {
	a := &aof{}
	a.write(c("SELECT 0"))
	a.at(0)
	for _, identity := range []string{me, other} {
		a.step(c("HSET belay:process:"+identity+" ttl_ms 6000 mark 0 queues", `["q","a:b"]`, "beat_ms", "1500"), c("ZADD belay:alive "+ms(6)+" "+identity))
	}
	return a
}

// fields are added to the payload of a job.
func payload(jid string, fields ...string) string {
	return `{"queue":"q","class":"C","args":[1.0,{"a":[]}],"jid":"` + jid + `","x":{"y":[1]}` + strings.Join(append([]string{""}, fields...), ",") + `}`
}

func (a *aof) push(text string) { a.step(c("SADD queues q"), c("LPUSH "+queue, text)) }

func (a *aof) take() { a.step(c("LMOVE " + queue + " " + mine + " RIGHT LEFT")) }

// count is what a settle counts.
func count(processed, failed int) [][]string {
	var found [][]string
	for name, n := range map[string]int{"processed": processed, "failed": failed} {
		if n > 0 {
			found = append(found, c(fmt.Sprintf("INCRBY stat:%s %d", name, n)), c(fmt.Sprintf("INCRBY stat:%s:2027-01-15 %d", name, n)))
		}
	}
	return found
}

// settle is a settle's step: its moves, its counters, and the verdict kept.
func (a *aof) settle(processed, failed int, moves ...[]string) {
	a.step(append(append(moves, count(processed, failed)...), c("HSET belay:process:"+me+" mark 1 batch:1", ""))...)
}

// look is a beat of the other process at each of these seconds, and its claim to recover one.
func (a *aof) look(victim string, seconds ...float64) {
	for _, second := range seconds {
		a.step(c("ZADD belay:alive " + ms(second+6) + " " + other))
	}
	a.step(c("SET belay:claim:" + victim + " " + other + " PXAT 9"))
}

// recover is a janitor's step, nine seconds after the start: the tombstone, then its moves.
func (a *aof) recover(moves ...[]string) {
	a.look(me, 5, 6.1, 7.6, 9.1)
	a.at(9)
	a.declareDead(me, 9.2, moves...)
}

// declareDead is the step that declares a process dead at some second.
func (a *aof) declareDead(victim string, second float64, moves ...[]string) {
	a.step(append([][]string{c("ZADD belay:tombstones " + ms(second) + " " + victim), c("ZADD belay:alive 0 " + victim)}, moves...)...)
}

// failed are the fields of a job that failed once.
const failed = `"error_message":"m","error_class":"E","failed_at":1.5,"retry_count":0`

// unread is a text in the dead set that no worker could read.
func unread(text string) string {
	return job.KeepUnreadable(text, "q", errors.New("unreadable job: for a test"), time.Now(), job.Seconds)
}
