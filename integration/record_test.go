package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A worker whose session record was deleted, or evicted, writes it again with its next heartbeat: its jobs are
// found when it dies.
func TestALostSessionRecordStrandsNoJob(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		victim := s.work("-c", "2", "--heartbeat", "300ms", "--exec", book.exec("Long"))
		jid := s.push("Long", "default", jsonArgs(1, 600_000))
		book.awaitStart(jid, 1)
		record := s.keys.Record(victim.identities()[0])
		s.do("DEL", record)
		eventually(t, "the record", func() bool { return s.do("EXISTS", record) == int64(1) })
		victim.awaitLog("session record restored")
		require.Len(t, victim.identities(), 1)
		s.work("-c", "2", "--heartbeat", "300ms", "--exec", book.exec("Long"))
		victim.kill()
		book.awaitStart(jid, 2)
	})
}
