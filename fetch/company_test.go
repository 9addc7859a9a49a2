package fetch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two fetchers in one process: a suspect that one of them runs has the whole process for itself.
func TestCompany(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		// both pumps both until a condition holds.
		both := func(mail, other *rig, what string, until func() bool) {
			for deadline := time.Now().Add(10 * time.Second); !until(); {
				require.True(t, time.Now().Before(deadline), "waited in vain for %s", what)
				for _, r := range []*rig{mail, other} {
					once := false
					r.pump(what, func() bool { was := once; once = true; return was || until() })
				}
			}
		}
		awhile := func(mail, other *rig) {
			until := time.Now().Add(200 * time.Millisecond)
			both(mail, other, "a while", func() bool { return time.Now().After(until) })
		}

		t.Run("a_suspect_waits_for_what_others_have_in_hand_and_they_wait_for_it", func(t *testing.T) {
			t.Parallel()
			mail, other := capsules(t, open, 10*time.Second)
			other.push("other", 1)
			both(mail, other, "the other's job, and its waits", func() bool { return len(other.running) == 1 && mail.fetcher.waits.open() == 1 })
			mail.do("RPUSH", mail.keys.Quarantine("mail"), suspect("mail", 2))
			mail.beat()
			both(mail, other, "the drain", func() bool {
				return mail.fetcher.suspects.draining == "mail" && other.fetcher.waits.open() == 0
			})
			other.push("other", 1)
			awhile(mail, other)
			require.Empty(t, mail.running, "the other still has a job in hand")
			require.Len(t, other.running, 1, "nothing more is taken in this process")

			other.end(done)
			both(mail, other, "the suspect", func() bool { return len(mail.running) == 1 })
			require.True(t, mail.running[0].alone)
			awhile(mail, other)
			require.Empty(t, other.running, "the suspect has the process for itself")

			mail.end(done)
			both(mail, other, "the other's next job", func() bool { return len(other.running) == 1 })
			other.end(done)
		})

		t.Run("where_all_are_idle_nobody_has_to_drain", func(t *testing.T) {
			t.Parallel()
			mail, other := capsules(t, open, 10*time.Second)
			both(mail, other, "the waits", func() bool { return mail.fetcher.waits.open() == 1 && other.fetcher.waits.open() == 1 })
			mail.do("RPUSH", mail.keys.Quarantine("mail"), suspect("mail", 2))
			mail.beat()
			both(mail, other, "the suspect", func() bool { return len(mail.running) == 1 && other.fetcher.waits.open() == 0 })
			require.Zero(t, mail.do("EXISTS", mail.keys.DrainAsked("mail")))
			mail.end(done)
			other.push("other", 1)
			both(mail, other, "the other's job", func() bool { return len(other.running) == 1 })
			other.end(done)
		})

		t.Run("one_that_leaves_gives_the_process_back", func(t *testing.T) {
			t.Parallel()
			company := &Company{}
			a, b := &Fetcher{}, &Fetcher{}
			nudged := company.join(a)
			company.join(b)
			require.True(t, company.mayTake(a))
			require.False(t, company.ask(b, false), "the other is busy")
			require.False(t, company.others(a))
			require.False(t, company.ask(b, true), "by force it is the next, and waits")
			require.True(t, company.others(a))
			require.False(t, company.mayTake(a))
			require.False(t, company.mayWait(a))
			company.report(a, false, false)
			require.True(t, company.ask(b, true))
			<-nudged
			company.leave(b)
			<-nudged
			require.True(t, company.mayTake(a))
		})
	})
}
