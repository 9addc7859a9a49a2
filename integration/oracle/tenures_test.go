package oracle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// tenure is a marker.
func (a *aof) tenure(value string) { a.step(c("SET "+oracle.TenureKey+"{7}", value)) }

// moved is a key that comes from another node.
func (a *aof) moved(keys ...string) {
	for _, key := range keys {
		a.step(c("RESTORE-ASKING " + key + " 0 dump"))
	}
}

// A slot that goes to another node and comes back takes the keyspace with it: the nodes' logs are one history.
func TestTenures(t *testing.T) {
	t.Parallel()
	one, two := &aof{}, &aof{}
	for _, a := range []*aof{one, two} {
		a.write(c("SELECT 0"))
	}
	one.tenure(oracle.Begins(1))
	one.text.WriteString(begin().text.String())
	one.push(payload("1"))
	one.tenure(oracle.Ends(1))
	one.take() // while all of its keys are still there
	one.step(c("DEL " + mine))
	one.step(c("UNLINK queue:other belay:process:" + me)) // as Valkey writes it
	two.moved(mine, "queue:other", "belay:process:"+me)
	for _, removes := range []string{"DEL", "UNLINK"} {
		two.step(c("RESTORE-ASKING belay:sweeper " + ms(0.5) + " dump ABSTTL"))
		two.step(c(removes + " belay:sweeper")) // it has expired
	}
	two.tenure(oracle.Begins(2))
	two.push(payload("2"))
	two.settle(1, 0, c("LREM "+mine+" -1", payload("1")))
	two.tenure(oracle.Ends(2))
	two.step(c("DEL " + queue))
	one.moved(queue)
	one.tenure(oracle.Begins(3))
	one.take()
	one.settle(1, 0, c("LREM "+mine+" -1", payload("2")))
	dirs := []string{two.save(t, ""), one.save(t, "")}
	report, err := oracle.ReplayTenures(dirs, oracle.Prefix(""))
	require.NoError(t, err)
	require.Empty(t, report.Violations)
	require.Equal(t, 2, report.Done)
	timeline, err := report.Timeline("1")
	require.NoError(t, err)
	require.Len(t, timeline, 3)

	stray := &aof{}
	stray.write(c("SELECT 0"))
	stray.push(payload("3"))
	_, err = oracle.ReplayTenures(append(dirs, stray.save(t, "")), oracle.Prefix(""))
	require.ErrorContains(t, err, "does not serve")
}

// What is lost on the way is a violation, as on one server.
func TestALossBetweenTenuresIsSeen(t *testing.T) {
	t.Parallel()
	one, two := begin(), &aof{}
	first := &aof{}
	first.write(c("SELECT 0"))
	first.tenure(oracle.Begins(1))
	first.text.WriteString(one.text.String())
	first.push(payload("1"))
	first.step(c("DEL " + queue)) // and no slot is leaving
	first.tenure(oracle.Ends(1))
	two.write(c("SELECT 0"))
	two.tenure(oracle.Begins(2))
	report, err := oracle.ReplayTenures([]string{first.save(t, ""), two.save(t, "")}, oracle.Prefix(""))
	require.NoError(t, err)
	require.Len(t, report.Violations, 1)
	require.Equal(t, oracle.Lost, report.Violations[0].Rule)
}
