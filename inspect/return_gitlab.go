package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/job"
)

// FromGitLab configures ReturnFromGitLab.
type FromGitLab struct {
	// Doubt is how long to wait for a heartbeat of a process that has none at the first look. Ruby processes
	// that are alive send one every 20 seconds; janitor.GitLabLifespan is safe. Use zero only if no Ruby
	// process is alive.
	Doubt time.Duration
	// Interruptions is the number of interruptions at which a job goes to the dead set. It is
	// max_retries_after_interruption in Ruby. Default: janitor.GitLabInterruptions. A negative number means
	// that it always goes back to its queue.
	Interruptions int
	// PayloadLimit is the limit of the workers in bytes: larger jobs go to the dead set. Default:
	// job.DefaultPayloadLimit.
	PayloadLimit int
	// Log gets a line for each job that goes to the dead set.
	Log *slog.Logger
	// Found, if set, is called with what the first look found.
	Found func(GitLabLook)
}

// GitLabLook describes the working lists of GitLab's reliable fetch.
type GitLabLook struct {
	Lists []GitLabList `json:"lists"`
	// Jobs counts the jobs in lists of processes without a heartbeat.
	Jobs int `json:"jobs"`
	// Interrupted is the size of GitLab's set of jobs that were interrupted too often. Belay does not touch it.
	Interrupted int `json:"interrupted"`
}

// A GitLabList is the jobs of one queue that one Ruby process has taken.
type GitLabList struct {
	Queue   string `json:"queue"`
	Process string `json:"process"`
	Jobs    int    `json:"jobs"`
	// State is StateAlive if the process has a heartbeat, StateLapsed if it has none, and StateUnclear if the
	// name of the list, then in Key, may mean several processes.
	State State  `json:"state"`
	Key   string `json:"key"`
}

// StateUnclear is the state of a process that cannot be read from the name of its list.
const StateUnclear State = "unclear"

// FromGitLabResult counts what ReturnFromGitLab did.
type FromGitLabResult struct {
	// Recovered counts jobs that left the lists of dead processes, and Dead those of them that went to the
	// dead set.
	Recovered int `json:"recovered"`
	Dead      int `json:"dead"`
	// Lists counts the lists that were emptied. Alive counts lists whose process had a heartbeat at either
	// look, and Unclear those whose name is ambiguous.
	Lists   int `json:"lists"`
	Alive   int `json:"alive"`
	Unclear int `json:"unclear"`
	// Held counts the jobs that were left in the lists of processes with a heartbeat. That of a killed process
	// is there for janitor.GitLabLifespan.
	Held int `json:"held"`
	// Interrupted is as in GitLabLook.
	Interrupted int `json:"interrupted"`
}

const (
	// gitlabNames is how many names one SCAN reads: half a millisecond of a busy Redis.
	gitlabNames = 500
	// gitlabSight is the time between two sights of Redis, and gitlabGap the gap after which an earlier look
	// does not count.
	gitlabSight = time.Second
	gitlabGap   = 5 * time.Second
)

// LookAtGitLab finds the working lists of GitLab's reliable fetch. It reads the names of all keys, some
// hundreds in a call, because there is no index of these lists. It changes nothing.
func (i *Inspector) LookAtGitLab(ctx context.Context) (GitLabLook, error) {
	look, _, err := i.lookAtGitLab(ctx, i.gitlab(FromGitLab{}))
	return look, err
}

// ReturnFromGitLab puts the jobs that dead Ruby processes with GitLab's reliable fetch hold back into their
// queues: at the heads, in the order in which they were taken. It takes as long as Doubt, unless there are no
// such jobs. A process that has a heartbeat at either look keeps its jobs.
func (i *Inspector) ReturnFromGitLab(ctx context.Context, cfg FromGitLab) (result FromGitLabResult, err error) {
	g := i.gitlab(cfg)
	if _, err = g.Sight(ctx); err != nil {
		return result, err
	}
	look, found, err := i.lookAtGitLab(ctx, g)
	if err != nil {
		return result, err
	}
	result.Interrupted = look.Interrupted
	if cfg.Found != nil {
		cfg.Found(look)
	}
	var lapsed []janitor.GitLabFound
	for _, list := range found {
		switch {
		case list.Unclear:
			result.Unclear++
		case list.Alive:
			result.Alive++
			result.Held += list.Jobs
		default:
			lapsed = append(lapsed, list)
		}
	}
	if len(lapsed) == 0 {
		return result, nil
	}
	if err = i.doubt(ctx, g, cfg.Doubt); err != nil {
		return result, err
	}
	var wrong error
	for _, list := range lapsed {
		done, err := g.Recover(ctx, list.GitLabList)
		result.Recovered, result.Dead = result.Recovered+done.Recovered, result.Dead+done.Dead
		switch {
		case driver.Outage(err) || ctx.Err() != nil:
			return result, errors.Join(wrong, err)
		case err != nil:
			wrong = errors.Join(wrong, err) // one list must not cost the others their turn
		case done.Alive:
			result.Alive++
			result.Held += list.Jobs - done.Recovered
		default:
			result.Lists++
		}
	}
	return result, wrong
}

func (i *Inspector) gitlab(cfg FromGitLab) *janitor.GitLab {
	return janitor.NewGitLab(janitor.GitLabConfig{
		Client: i.driver, Keys: i.keys, Log: cfg.Log, Round: returnRound, Gap: gitlabGap, Names: gitlabNames,
		Largest: cmp.Or(cfg.PayloadLimit, job.DefaultPayloadLimit) + job.PayloadSlack, Interruptions: cmp.Or(cfg.Interruptions, janitor.GitLabInterruptions),
	})
}

// lookAtGitLab reads all pages of names. A list may be on two of them.
func (i *Inspector) lookAtGitLab(ctx context.Context, g *janitor.GitLab) (look GitLabLook, found []janitor.GitLabFound, err error) {
	look.Lists = []GitLabList{}
	interrupted := i.driver.Do(ctx, driver.Command("ZCARD", i.keys.GitLabInterrupted()))[0]
	if driver.Outage(interrupted.Err) {
		return look, nil, fmt.Errorf("read GitLab's interrupted jobs: %w", interrupted.Err)
	}
	size, _ := interrupted.Value.(int64)
	look.Interrupted = int(size)
	known := make(map[string]bool)
	for last := false; !last; {
		var page []janitor.GitLabFound
		if page, last, err = g.Page(ctx); err != nil {
			return look, nil, err
		}
		for _, list := range page {
			if known[list.Key] {
				continue
			}
			known[list.Key] = true
			found = append(found, list)
			shown := GitLabList{Queue: list.Queue, Process: list.Process, Jobs: list.Jobs, State: StateLapsed, Key: list.Key}
			switch {
			case list.Unclear:
				shown.State = StateUnclear
			case list.Alive:
				shown.State = StateAlive
			default:
				look.Jobs += list.Jobs
			}
			look.Lists = append(look.Lists, shown)
		}
	}
	return look, found, nil
}

// doubt waits until Redis was in sight for this long without an interruption. After a restart or an outage the
// time begins anew, because the Ruby processes may have been unable to send heartbeats.
func (i *Inspector) doubt(ctx context.Context, g *janitor.GitLab, least time.Duration) error {
	for since := time.Now(); time.Since(since) < least; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for heartbeats: %w", context.Cause(ctx))
		case <-time.After(min(gitlabSight, max(least-time.Since(since), 0))):
		}
		unbroken, err := g.Sight(ctx)
		if err != nil && !driver.Outage(err) {
			return err
		}
		if err != nil || !unbroken {
			since = time.Now()
		}
	}
	return nil
}
