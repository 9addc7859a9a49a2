package janitor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

func TestCrashPolicy(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		for crashes, where := range []string{"queue", "quarantine", "quarantine", "quarantine"} {
			t.Run(fmt.Sprintf("%d_crashes_before_and_not_alone:_%s", crashes, where), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, open, "mail")
				r.do("LPUSH", r.keys.Working("mail", r.victim), crashed("mail", crashes))
				home := r.keys.Queue("mail")
				if where == "quarantine" {
					home = r.keys.Quarantine("mail")
				}
				require.Equal(t, crashes+1, r.interrupt(home).InterruptedCount())
				require.Zero(t, r.do("ZCARD", r.keys.Dead()))
			})
		}

		t.Run("a_crash_alone_kills_at_the_limit", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail", "other")
			tracked := strings.Replace(crashed("mail", 2), "{", `{"belay_track_ms":60000,"belay_batch":"b/calls",`, 1)
			member, err := job.Parse(tracked)
			require.NoError(t, err)
			r.do("HSET", r.keys.Batch("b"), "created", "1", "total", "1", "keep_dead", "60")
			r.do("SADD", r.keys.BatchPending("b"), member.JID())
			r.do("LPUSH", r.keys.QuarantineRun(r.victim), tracked)
			r.do("HSET", r.keys.Record(r.victim), "quarantine_queue", "mail")
			r.lapse(r.victim)
			j, session := r.newJanitor()
			r.recover(j, session, func() bool { return r.do("ZCARD", r.keys.Dead()) == int64(1) })
			dead, _ := r.do("ZRANGE", r.keys.Dead(), "0", "-1").([]any)
			crasher, err := job.Parse(dead[0].(string))
			require.NoError(t, err)
			require.Equal(t, int64(1), r.do("SISMEMBER", r.keys.BatchDead("b"), crasher.JID()), "its batch")
			require.Equal(t, 3, crasher.InterruptedCount())
			class, _ := crasher.Text("error_class")
			require.Equal(t, "Belay::Interrupted", class)
			require.Equal(t, "1", r.count(r.keys.Processed()))
			require.Equal(t, "1", r.count(r.keys.Failed()), "nothing dies without a count")
			require.Equal(t, "Belay::Interrupted", r.do("HGET", r.keys.Iteration(crasher.JID()), lua.FieldErrorClass), "for those that wait")
		})

		t.Run("a_crash_alone_below_the_limit_leaves_a_quarantined_job", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail", "other")
			r.do("LPUSH", r.keys.QuarantineRun(r.victim), crashed("other", 1))
			r.do("HSET", r.keys.Record(r.victim), "quarantine_queue", "other")
			require.Equal(t, 2, r.interrupt(r.keys.Quarantine("other")).InterruptedCount())
		})

		for name, c := range map[string]struct {
			crashes, advancedAt int
			alone               bool
			home                func(r *rig) string
		}{
			"a_job_whose_cursor_advanced_in_its_last_run_is_not_quarantined": {7, 7, false, func(r *rig) string { return r.keys.Queue("mail") }},
			"a_job_whose_cursor_advanced_a_run_ago_is_quarantined":           {7, 6, false, func(r *rig) string { return r.keys.Quarantine("mail") }},
			"a_cursor_from_before_an_operator's_retry_excuses_nothing":       {1, 7, false, func(r *rig) string { return r.keys.Quarantine("mail") }},
			"a_quarantined_job_whose_cursor_advances_does_not_die":           {7, 7, true, func(r *rig) string { return r.keys.Quarantine("mail") }},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, open, "mail")
				entry := crashed("mail", c.crashes)
				list := r.keys.Working("mail", r.victim)
				if c.alone {
					list = r.keys.QuarantineRun(r.victim)
					r.do("HSET", r.keys.Record(r.victim), "quarantine_queue", "mail")
				}
				r.do("LPUSH", list, entry)
				parsed, err := job.Parse(entry)
				require.NoError(t, err)
				created, _ := parsed.Field("created_at")
				r.do("HSET", r.keys.Iteration(parsed.JID()), "c", "5", "belay_version", "2", "belay_created", created,
					lua.FieldCrashes, strconv.Itoa(c.advancedAt))
				require.Equal(t, c.crashes+1, r.interrupt(c.home(r)).InterruptedCount())
				require.Zero(t, r.do("ZCARD", r.keys.Dead()))
			})
		}

		t.Run("the_log_tells_where_a_job_went_that_holds_an_unreadable_text", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail")
			retried := job.KeepUnreadable("garbage", "mail", errors.New("no JSON"), time.Now(), job.Seconds)
			parsed, err := job.Parse(retried)
			require.NoError(t, err)
			r.do("LPUSH", r.keys.Working("mail", r.victim), parsed.Patch(job.SetInt("interrupted_count", 1)))
			require.Equal(t, 2, r.interrupt(r.keys.Quarantine("mail")).InterruptedCount())
			require.Regexp(t, `"crashes":2,"time":"[^"]+","message":"quarantined: running in too many crashes; will run alone"`, r.log.String())
			require.NotContains(t, r.log.String(), "dead set")
		})

		t.Run("what_reached_the_list_after_the_end_counts_no_crash", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail")
			late := crashed("mail", 1)
			r.do("LPUSH", r.keys.Working("mail", r.victim), late)
			r.do("HSET", r.keys.Record(r.victim), "emptied", "1")
			require.Equal(t, late, r.interrupt(r.keys.Queue("mail")).Raw())
		})
	})
}

// interrupt lets the rig's process die, and answers the one job that was brought home.
func (r *rig) interrupt(home string) *job.Job {
	r.t.Helper()
	r.lapse(r.victim)
	j, session := r.newJanitor()
	r.recover(j, session, func() bool { return len(r.list(home)) == 1 })
	parsed, err := job.Parse(r.list(home)[0])
	require.NoError(r.t, err)
	return parsed
}

func TestACursorThatAdvancesInEachRunDoesNotExcuseCrashesWithoutEnd(t *testing.T) {
	t.Parallel()
	j := &Janitor{cfg: Config{Crashes: retry.CrashPolicy{}}}
	after := func(crashes int) lua.Home {
		parsed, err := job.Parse(crashed("mail", crashes))
		require.NoError(t, err)
		_, home := j.interrupted(parsed, false, crashes)
		return home
	}
	require.Equal(t, lua.HomeQueue, after(maxExcused))
	require.Equal(t, lua.HomeQuarantine, after(maxExcused+1))
	parsed, err := job.Parse(crashed("mail", maxExcused+2))
	require.NoError(t, err)
	_, home := j.interrupted(parsed, true, maxExcused+2)
	require.Equal(t, lua.HomeDead, home)
}

func TestAQuarantinedJobWaitsSinceItCameBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], "mail")
	j, session := r.newJanitor()
	r.look(j, session)
	draft := crashed("mail", 2)
	since := time.Now().Add(-3 * time.Hour).UnixMilli()
	r.do("LPUSH", r.keys.Quarantine("mail"), fmt.Sprintf(`%s,"enqueued_at":%d,"interrupted_at":%d}`, strings.Replace(draft[:len(draft)-1], `"enqueued_at"`, `"x"`, 1), time.Now().UnixMilli(), since))
	require.NoError(t, j.Remind(r.ctx, []string{"mail"}))
	require.NotContains(t, r.log.String(), "no process of its queue has been empty", "it was promoted this second")
}

func TestQuarantinedJobsThatWaitForAnHourAreReportedOnce(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, "mail", "other")
		since := func(ago time.Duration) string {
			return fmt.Sprintf(`{"class":"Test","jid":"x","args":[],"interrupted_count":2,"interrupted_at":%d}`, time.Now().Add(-ago).Unix())
		}
		r.do("RPUSH", r.keys.Quarantine("mail"), since(61*time.Minute))
		r.do("RPUSH", r.keys.Quarantine("other"), since(59*time.Minute))
		j, session := r.newJanitor()
		r.look(j, session)
		for range 2 {
			require.NoError(t, j.Remind(context.Background(), []string{"mail", "other"}))
		}
		require.Equal(t, 1, strings.Count(r.log.String(), "quarantined job waits"))
	})
}

// A user who may not do what the script does last must not have its first half done.
func TestARecoveryWithoutRPushKeepsTheJobs(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	r := newRigOn(t, clients["go-redis"], server.Addr(), "p", "mail")
	jobs := r.push("mail", 1)
	r.take(1)
	r.lapse(r.victim)
	_, err := server.Do(context.Background(), "ACL", "SETUSER", "default", "-rpush")
	require.NoError(t, err)
	_, err = r.keys.Recover(r.victim, []string{"mail"}, []lua.Orphans{{Queue: "mail", Entries: New(Config{}).afterCrash(jobs, "mail", false, true, nil)}}, time.Now()).Do(r.ctx, r.client)
	require.ErrorContains(t, err, "NOPERM")
	require.Equal(t, jobs, r.working("mail"))
	require.Equal(t, int64(0), r.do("ZCARD", r.keys.Tombstones()), "no process is declared dead by halves")
}

func TestRecoveredJobsAreParsedOnlyForTheLog(t *testing.T) { // not parallel: it counts what is allocated
	j := New(Config{})
	plain := payload("mail")
	moved := []lua.Orphans{{Queue: "mail", Entries: []lua.Orphan{{Old: plain, New: plain, Home: lua.HomeQueue}}}}
	require.Zero(t, testing.AllocsPerRun(10, func() { j.report("vm:1:aa", moved) }))
	moved[0].Entries[0].Home = lua.HomeDead
	require.Positive(t, testing.AllocsPerRun(10, func() { j.report("vm:1:aa", moved) }))
}
