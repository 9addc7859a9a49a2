package janitor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// afterCrash returns where each entry of a dead process' list goes, and its new payload. For a job that was
// running the crash counts as an interruption, but not as a retry. The payload of a job that was not running
// does not change. An unreadable entry goes to the dead set. excused has the crashes that do not count, by
// entry: see excuse.
func (j *Janitor) afterCrash(entries []string, queue string, quarantined, running bool, excused map[string]int) []lua.Orphan {
	orphans := make([]lua.Orphan, len(entries))
	for i, entry := range entries {
		orphans[i] = lua.Orphan{Old: entry, New: entry, Home: lua.HomeQueue}
		if quarantined {
			orphans[i].Home = lua.HomeQuarantine
		}
		parsed, err := job.Parse(entry)
		switch {
		case err != nil:
			orphans[i].New, orphans[i].Home = job.KeepUnreadable(entry, queue, err, j.now(), j.cfg.Unit), lua.HomeDead
			orphans[i].State = lua.DeadUnread(entry, entry, job.UnreadableClass, err.Error(), j.now())
			orphans[i].Member = lua.MemberUnread(entry, entry, lua.MemberDied)
		case running:
			orphans[i].New, orphans[i].Home = j.interrupted(parsed, quarantined, excused[entry])
			orphans[i].Lock = dedup.AfterCrash(parsed, queue, orphans[i].Home, j.now(), j.cfg.Unit)
			if orphans[i].Home == lua.HomeDead {
				orphans[i].State = lua.DiedState(orphans[i].New, j.now())
				orphans[i].Member = lua.MemberOf(parsed, lua.MemberDied)
			}
		}
	}
	return orphans
}

// excuse returns how many crashes of each of these jobs came before its cursor last advanced. Those do not
// count: a long job that gets further in each run is not the cause of the crashes. excuse asks Redis only
// about jobs that would be quarantined or die, which are few.
func (j *Janitor) excuse(ctx context.Context, entries []string) (map[string]int, error) {
	var crashed []*job.Job
	for _, entry := range entries {
		parsed, err := job.Parse(entry)
		if err == nil && j.cfg.Crashes.Quarantines(parsed.InterruptedAgain()) {
			crashed = append(crashed, parsed)
		}
	}
	if len(crashed) == 0 {
		return nil, nil
	}
	asks, calls := lua.AskEach(crashed, func(parsed *job.Job) lua.Ask[lua.StateRead] {
		return j.cfg.Keys.ReadState(lua.StateOf(parsed), lua.FieldCrashes)
	})
	excused := make(map[string]int, len(crashed))
	for i, reply := range j.link.Do(ctx, calls...) {
		state, err := asks[i].Read(reply)
		if driver.Outage(err) {
			return nil, fmt.Errorf("read how far crashed jobs came: %w", err)
		}
		if err == nil { // otherwise the key has a wrong type, and all crashes count
			excused[crashed[i].Raw()], _ = strconv.Atoi(state.Fields[0])
		}
	}
	return excused, nil
}

// maxExcused bounds how many crashes of a job do not count because its cursor advanced. Without it a job that
// advances and then kills its worker in each run would do so for ever. A long job that is not the cause has
// fewer crashes, even in a bad week of deploys by kill -9.
const maxExcused = 100

// interrupted returns the payload after one more crash, and where the job goes. The payload counts all crashes,
// but only those that are not excused lead to the quarantine or to the dead set.
func (j *Janitor) interrupted(parsed *job.Job, quarantined bool, excused int) (string, lua.Home) {
	count := parsed.InterruptedAgain()
	counted := count
	if excused > 0 && excused < count { // otherwise the state is from before an operator's retry
		counted -= min(excused, maxExcused)
	}
	edits := []job.Edit{job.SetInt("interrupted_count", count)}
	home := lua.HomeQueue
	switch {
	case quarantined && j.cfg.Crashes.Kills(counted):
		home = lua.HomeDead
		edits = append(edits, job.SetString("error_class", "Belay::Interrupted"), job.SetString("error_message", fmt.Sprintf(
			"its process died %d times while it ran, the last time with no other job running", count)))
	case quarantined || j.cfg.Crashes.Quarantines(counted):
		home = lua.HomeQuarantine
		if !quarantined {
			edits = append(edits, job.SetStamp("interrupted_at", j.now(), j.cfg.Unit))
		}
	}
	return parsed.Patch(edits...), home
}

// report passes the jobs that were moved to Config.Recovered, and logs those that did not go back to their
// queues. If two janitors recover one victim, both may report a job that one of them moved.
func (j *Janitor) report(from string, moved []lua.Orphans) {
	if j.cfg.Recovered != nil {
		j.cfg.Recovered(from, moved)
	}
	for _, list := range moved {
		for _, orphan := range list.Entries {
			if orphan.Home == lua.HomeQueue { // nearly all: nothing is logged, so nothing needs to be parsed
				continue
			}
			_, unreadable := job.Parse(orphan.Old)
			parsed, _ := job.Parse(orphan.New) // afterCrash wrote it
			switch {
			case unreadable != nil:
				j.cfg.Log.Error("moved to the dead set: unreadable payload",
					"error", unreadable, "queue", list.Queue, "bytes", len(orphan.Old))
			case orphan.Home == lua.HomeDead:
				j.cfg.Log.Error("moved to the dead set: too many crashes, the last one with no other job running",
					"jid", parsed.JID(), "class", parsed.Class(), "crashes", parsed.InterruptedCount())
			default:
				j.cfg.Log.Warn("quarantined: running in too many crashes; will run alone",
					"jid", parsed.JID(), "class", parsed.Class(), "crashes", parsed.InterruptedCount())
			}
		}
	}
}

// longQuarantine is how long a quarantined job waits before it is logged, and how often it is logged again.
const longQuarantine = time.Hour

// Remind logs quarantined jobs of these queues that have been waiting for longQuarantine, because no process
// that takes the queue has been idle.
func (j *Janitor) Remind(ctx context.Context, queues []string) error {
	j.passing.Lock()
	defer j.passing.Unlock()
	if err := j.link.Check(ctx); err != nil {
		return err
	}
	lengths, err := lua.Lengths(j.cfg.Keys.QuarantineLists(queues)).Do(ctx, &j.link)
	if err != nil {
		return fmt.Errorf("look for quarantined jobs: %w", err)
	}
	now := j.now()
	for i, length := range lengths {
		if length <= 0 || now.Sub(j.reminded[queues[i]]) < longQuarantine {
			continue
		}
		reply := j.link.Carry(ctx, j.cfg.Largest, driver.Command("LINDEX", j.cfg.Keys.Quarantine(queues[i]), "-1"))[0]
		if driver.Outage(reply.Err) {
			return j.link.Excused(reply.Err)
		}
		payload, _ := reply.Value.(string)
		parsed, err := job.Parse(payload)
		if err != nil {
			continue
		}
		if since, ok := parsed.QuarantinedSince(); ok && now.Sub(since) >= longQuarantine {
			j.reminded[queues[i]] = now
			j.cfg.Log.Warn("quarantined job waits: no idle worker for its queue",
				"jid", parsed.JID(), "class", parsed.Class(), "queue", queues[i], logbook.Millis("waiting_ms", now.Sub(since)))
		}
	}
	return nil
}

// now returns Redis' time at the last heartbeat. A sweep may come before the first heartbeat, and what it
// moves to the dead set needs a date: until then now returns this machine's time.
func (j *Janitor) now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last.Now.IsZero() {
		return time.Now()
	}
	return j.last.Now
}
