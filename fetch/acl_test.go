package fetch

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// A user who may not do what a script does last must not have its first half done.
func TestDeniedCommands(t *testing.T) {
	t.Parallel()
	ends := map[string]func(string) job.Outcome{
		"zadd":  func(bytes string) job.Outcome { return job.Retried(bytes, time.Second) },
		"rpush": func(string) job.Outcome { return job.Requeued() },
	}
	for command, outcome := range ends {
		t.Run("a_settle_without_"+command+"_keeps_the_job_until_it_is_allowed", func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t)
			r := newRigOn(t, clients["go-redis"], server.Addr(), "p", 1, "mail")
			jobs := r.push("mail", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			_, err := server.Do(context.Background(), "ACL", "SETUSER", "default", "-"+command)
			require.NoError(t, err)
			r.finish(r.running[0], outcome(jobs[0]))
			r.running = nil
			r.pump("the refusal", func() bool { return r.k.ledger.count(blocked) == 1 })
			require.Equal(t, jobs, r.working("mail"), "not lost")
			_, err = server.Do(context.Background(), "ACL", "SETUSER", "default", "+"+command)
			require.NoError(t, err)
			r.k.blockedAt = time.Now()
			r.pump("the settle", func() bool { return r.session.held == 0 || len(r.running) > 0 })
			require.NotContains(t, r.log.String(), "ownership lost")
		})
	}
}

// A user that loses its permissions while a run ends: its settle is refused, and so are the calls after it. The
// settle is sent again when the permissions are back, and not a minute later.
func TestASettleIsRepeatedWhenADenialEnds(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		for name, lapsed := range map[string]bool{"with_a_lease": false, "without_a_lease": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := drivertest.Start(t)
				r := newRigOn(t, open, server.Addr(), "p", 1, "mail")
				acl := func(change string) {
					_, err := server.Do(context.Background(), "ACL", "SETUSER", "default", change)
					require.NoError(t, err)
				}
				jobs := r.push("mail", 2)
				r.pump("a job", func() bool { return len(r.running) == 1 })
				acl("-evalsha")
				if lapsed {
					r.session.confirmedAt.Store(0) // heartbeats are denied, too
				}
				r.finish(r.running[0], job.Done())
				r.running = nil
				r.pump("the refusals", func() bool { return r.k.ledger.count(blocked) == 1 && r.k.outage.denied })
				require.Equal(t, jobs[:1], r.working("mail"), "not lost")
				acl("+evalsha")
				r.stay()
				r.pump("the other job, and the settle", func() bool { return len(r.running) == 1 && r.k.ledger.count(blocked, isolated, settling) == 0 })
				require.Equal(t, jobs[1:], r.working("mail"))
				require.NotContains(t, r.log.String(), "ownership lost")
			})
		}
	})
}

// A user that may not move the jobs of a queue: the log says that a permission is missing and which queue lacks it,
// the process counts as denied, and the jobs of other queues run. All that ends when the permission is back.
func TestATakeThatIsDeniedIsADenial(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		server := drivertest.Start(t)
		r := newRigOn(t, open, server.Addr(), "p", 2, "mail", "good")
		acl := func(rules ...string) {
			_, err := server.Do(context.Background(), append([]string{"ACL", "SETUSER", "default"}, rules...)...)
			require.NoError(t, err)
		}
		// All commands on all keys, but LMOVE and BLMOVE on the lists of one queue only. No wait is open yet: Redis
		// would still serve it.
		acl("-lmove", "-blmove", "(+lmove +blmove ~p:queue:good ~p:belay:working:good:*)")
		mail, good := r.push("mail", 1), r.push("good", 1)
		r.pump("the job of the other queue", func() bool { return len(r.running) == 1 && r.k.report.Denied() != nil })
		require.Equal(t, good, bytesOf(r.running))
		require.ErrorContains(t, r.k.report.Denied(), `queues ["mail"]: `)
		require.NotEmpty(t, driver.Denial(r.k.report.Denied()))
		require.Equal(t, 1, strings.Count(r.log.String(), "redis denies access"), r.log.String())
		require.Contains(t, r.log.String(), `"call":"take"`)
		require.NotContains(t, r.log.String(), "queue skipped")
		r.end(done)
		acl("+lmove", "+blmove")
		r.beat()
		r.pump("its own", func() bool { return len(r.running) == 1 })
		require.Equal(t, mail, bytesOf(r.running))
		r.end(done)
		r.pump("the end of the denial", func() bool { return r.k.report.Denied() == nil })
	})
}
