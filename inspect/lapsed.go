package inspect

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// heldByLapsed counts, by queue, the jobs in the lists of Belay's lapsed processes, which a living process of
// Belay will recover. Such a queue may no longer be in Sidekiq's list of queues.
func (i *Inspector) heldByLapsed(ctx context.Context, r *reading, processes []Process) map[string]int64 {
	var lapsed []string
	for _, p := range processes {
		if p.Belay && p.State == StateLapsed {
			lapsed = append(lapsed, p.Identity)
		}
	}
	jobs := make(map[string]int64)
	for page := range slices.Chunk(lapsed, processesAtOnce) {
		lists, err := i.workingPage(ctx, page)
		if err != nil {
			r.value("the jobs of lapsed processes", driver.Reply{Err: err})
			continue
		}
		for _, list := range lists {
			jobs[list.Queue] += int64(max(list.Size, 0))
		}
		calls := make([]driver.Call, len(page))
		for n, identity := range page {
			calls[n] = driver.Command("LINDEX", i.keys.QuarantineRun(identity), "0") // it has at most one job
		}
		for n, reply := range i.do(ctx, calls) {
			if payload, ok := r.value("the quarantined job of "+page[n], reply).(string); ok {
				jobs[cmp.Or(newEntry(Home{place: PlaceRunning}, lua.Entry{Bytes: payload}).Queue, job.DefaultQueue)]++
			}
		}
	}
	return jobs
}

// addHeldByDead puts the counts into the queues' rows, and adds rows for queues that are not listed.
func (s *Status) addHeldByDead(jobs map[string]int64) {
	for n := range s.Queues {
		s.Queues[n].HeldByDead = jobs[s.Queues[n].Name]
		delete(jobs, s.Queues[n].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		queue := Queue{Name: name, HeldByDead: jobs[name]}
		switch {
		case queue.HeldByDead == 0:
		case len(s.Queues) < maxShown:
			s.Queues = append(s.Queues, queue)
		default:
			s.addUnlisted(queue)
			s.HeldByDead += queue.HeldByDead
		}
	}
	slices.SortFunc(s.Queues, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	for _, queue := range s.Queues {
		s.HeldByDead += queue.HeldByDead
	}
}

// addNoConsumer marks queues whose jobs no process takes, because those jobs would stay for ever. It marks
// none unless the queues of all processes are known: a process that just started has not reported them yet.
func (s *Status) addNoConsumer() {
	for n := range s.Queues {
		s.Queues[n].NoConsumer = s.noConsumer(s.Queues[n])
	}
}

func (s *Status) noConsumer(queue Queue) bool {
	takes := func(p Process) bool { return p.takes(queue.Name) }
	return s.ProcessCount <= int64(len(s.Processes)) && queue.Jobs() > 0 && !slices.ContainsFunc(s.Processes, takes)
}
