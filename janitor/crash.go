package janitor

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// blame says what becomes of each entry of a dead process' list. A crash with the job in hand counts as an interruption;
// it costs no retry. What was in no hand stays as it is, and what cannot be read is buried as it is.
func (j *Janitor) blame(entries []string, queue string, alone, inHand bool) []lua.Orphan {
	orphans := make([]lua.Orphan, len(entries))
	for i, entry := range entries {
		orphans[i] = lua.Orphan{Old: entry, New: entry, Home: lua.HomeQueue}
		if alone {
			orphans[i].Home = lua.HomeQuarantine
		}
		parsed, err := job.Parse(entry)
		switch {
		case err != nil:
			orphans[i].New, orphans[i].Home = job.KeepUnreadable(entry, queue, err, j.now(), j.cfg.Unit), lua.HomeDead
		case inHand:
			orphans[i].New, orphans[i].Home = j.interrupted(parsed, alone)
			orphans[i].Lock = j.lockOf(parsed, queue, orphans[i].Home)
		}
	}
	return orphans
}

// interrupted is the payload after one more crash, and where it goes.
func (j *Janitor) interrupted(parsed *job.Job, alone bool) (string, lua.Home) {
	count := min(parsed.InterruptedCount(), math.MaxInt32) + 1 // it may be anything
	edits := []job.Edit{job.SetInt("interrupted_count", count)}
	home := lua.HomeQueue
	switch {
	case alone && j.cfg.Crashes.Kills(count):
		home = lua.HomeDead
		edits = append(edits, job.SetString("error_class", "Belay::Interrupted"), job.SetString("error_message", fmt.Sprintf(
			"its process died %d times while it ran, the last time with nothing else in hand", count)))
	case alone || j.cfg.Crashes.Quarantines(count):
		home = lua.HomeQuarantine
		if !alone {
			edits = append(edits, job.SetStamp("interrupted_at", j.now(), j.cfg.Unit))
		}
	}
	return parsed.Patch(edits...), home
}

// lockOf is what a crash means for a job's lock: held on to while the job lives on, ended when it is buried.
func (j *Janitor) lockOf(parsed *job.Job, queue string, home lua.Home) *lua.Lock {
	unique, err := dedup.Read(parsed)
	if err != nil || unique.None() {
		return nil
	}
	lock := unique.Stored(parsed.Class())
	if home == lua.HomeDead && unique.Again {
		lock.Again = dedup.Again(parsed, queue, j.now(), j.cfg.Unit)
	}
	return lock
}

// tell names those that were moved elsewhere than to their queues. With two janitors at one victim both may tell of a job
// that one of them moved.
func (j *Janitor) tell(from string, moved []lua.Orphans) {
	if j.cfg.Recovered != nil {
		j.cfg.Recovered(from, moved)
	}
	for _, list := range moved {
		for _, orphan := range list.Entries {
			parsed, err := job.ParseToRun(orphan.New)
			switch {
			case orphan.Home == lua.HomeQueue:
			case err != nil:
				j.cfg.Log.Error().Err(err).Str("queue", list.Queue).Int("bytes", len(orphan.Old)).Msg("moved to the dead set: the payload cannot be read")
			case orphan.Home == lua.HomeDead:
				j.cfg.Log.Error().Str("jid", parsed.JID()).Str("class", parsed.Class()).Int("crashes", parsed.InterruptedCount()).
					Msg("moved to the dead set: its process died again and again, the last time with nothing else in hand")
			default:
				j.cfg.Log.Warn().Str("jid", parsed.JID()).Str("class", parsed.Class()).Int("crashes", parsed.InterruptedCount()).
					Msg("suspect: it was in hand in too many crashes, and runs alone from now on")
			}
		}
	}
}

// longSuspicion is how long a suspect waits before operators are told of it, and how often they are told again.
const longSuspicion = time.Hour

// Remind tells operators of suspects of these queues that have been waiting for long: everybody who could run them alone
// has had something else in hand.
func (j *Janitor) Remind(ctx context.Context, queues []string) error {
	j.passing.Lock()
	defer j.passing.Unlock()
	if err := j.check(ctx); err != nil {
		return err
	}
	lengths, err := lua.Lengths(j.cfg.Keys.QuarantineLists(queues)).Do(ctx, &j.link)
	if err != nil {
		return fmt.Errorf("look for quarantined jobs: %w", err)
	}
	now := j.now()
	for i, length := range lengths {
		if length <= 0 || now.Sub(j.reminded[queues[i]]) < longSuspicion {
			continue
		}
		reply := j.link.Carry(ctx, j.cfg.Largest, driver.Command("LINDEX", j.cfg.Keys.Quarantine(queues[i]), "-1"))[0]
		if driver.Outage(reply.Err) {
			return j.paced(nil, reply.Err)
		}
		payload, _ := reply.Value.(string)
		parsed, err := job.Parse(payload)
		if err != nil {
			continue
		}
		if since, ok := parsed.QuarantinedSince(); ok && now.Sub(since) >= longSuspicion {
			j.reminded[queues[i]] = now
			j.cfg.Log.Warn().Str("jid", parsed.JID()).Str("class", parsed.Class()).Str("queue", queues[i]).Dur("waiting_ms", now.Sub(since)).
				Msg("a suspect waits to run alone, and no process of its queue has had empty hands")
		}
	}
	return nil
}

// now is Redis' time as of the last beat. Before the first one it is this machine's, for a sweep may come before it: what it moves
// to the dead set must have a date, and count on a day that there is.
func (j *Janitor) now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last.Now.IsZero() {
		return time.Now()
	}
	return j.last.Now
}
