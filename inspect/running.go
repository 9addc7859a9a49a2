package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// running searches the jobs that processes hold: for Belay in their lists, which are exact, and for Sidekiq
// in what they reported.
func (s *search) running(ctx context.Context) (bool, error) {
	if !s.wants(PlaceRunning) {
		return false, nil
	}
	s.place = "processes"
	names, err := s.i.ranked(ctx, s.i.keys.Alive())
	if err != nil {
		return false, err
	}
	reported, err := s.i.members(ctx, s.i.keys.Processes())
	if err != nil {
		return false, err
	}
	var r reading
	now := r.time(s.i.do(ctx, []driver.Call{lua.AskTime})[0])
	names = sorted(append(names, reported...))
	start, _ := slices.BinarySearch(names, s.at.Name)
	for page := range slices.Chunk(names[start:], processesAtOnce) {
		processes := s.i.processPage(ctx, &r, page, now)
		s.i.runs(ctx, &r, processes, now)
		lists, err := s.i.workingPage(ctx, page)
		if err != nil {
			return false, err
		}
		for _, p := range processes {
			full, err := s.process(ctx, p, lists)
			if err != nil {
				return false, err
			}
			// The next process is the first behind this one.
			if s.at.Name = p.Identity + "\x00"; full || s.pageEnd() {
				return true, nil
			}
		}
	}
	return false, r.err
}

// process searches all jobs that one process holds; lists has its working lists, among others.
func (s *search) process(ctx context.Context, p Process, lists []WorkingList) (full bool, err error) {
	var held []Found
	if p.Belay {
		if held, err = s.held(ctx, p.Identity, lists); err != nil {
			return false, err
		}
	}
	for _, run := range p.Running {
		at := slices.IndexFunc(held, func(f Found) bool { return f.JID == run.JID })
		switch {
		case at >= 0: // a Belay process reports when the run began
			held[at].Since, held[at].Reported = run.Since, true
		case !p.Belay:
			s.looked++
			if (len(s.ids) == 0 || s.ids[run.JID]) && s.query.matchesRun(run) {
				held = append(held, Found{JID: run.JID, Place: PlaceRunning, Queue: run.Queue, Class: run.Class, Since: run.Since, Reported: true})
			}
		}
	}
	for _, found := range held {
		found.Process, found.State = p.Identity, p.State
		full = s.found(found) || full
	}
	return full, nil
}

// Held returns a job that a process held when it was found: as long as it still does, from what that process
// alone holds and reports. It is no search: a page of a running job asks it every few seconds. ok is false if
// the process holds no such job in this queue any more, or is gone.
func (i *Inspector) Held(ctx context.Context, identity, queue, jid string) (found Found, ok bool, err error) {
	s := i.search(Query{IDs: []string{jid}})
	s.visit = func(f Found) bool { found, ok = f, true; return true }
	if err := s.readTracked(ctx); err != nil {
		return found, false, s.wrap(err)
	}
	var r reading
	now := r.time(i.do(ctx, []driver.Call{lua.AskTime})[0])
	processes := i.processPage(ctx, &r, []string{identity}, now)
	i.runs(ctx, &r, processes, now)
	if r.err != nil {
		return found, false, fmt.Errorf("read process %s: %w", identity, r.err)
	}
	var lists []WorkingList
	if queue != "" {
		lists = []WorkingList{{Identity: identity, Queue: queue, Size: 1}}
	}
	_, err = s.process(ctx, processes[0], lists)
	return found, ok, s.wrap(err)
}

// held returns the matching jobs in the working lists of a process of Belay, and in the list of its quarantined
// job.
func (s *search) held(ctx context.Context, identity string, lists []WorkingList) (held []Found, err error) {
	read := func(home Home, key string) error {
		inner := s.i.search(s.query)
		inner.visit = func(found Found) bool { held = append(held, found); return false }
		_, err := inner.walk(ctx, home, key)
		s.looked += inner.looked
		return err
	}
	s.place = "the jobs of " + identity
	for _, list := range lists {
		key := s.i.keys.Working(list.Queue, identity)
		switch {
		case list.Identity != identity || list.Size == 0:
		case list.Size < 0:
			s.unseen = append(s.unseen, key+" is not a list")
		default:
			if err := read(Home{place: PlaceRunning, queue: list.Queue}, key); err != nil {
				return nil, err
			}
		}
	}
	return held, read(Home{place: PlaceRunning}, s.i.keys.QuarantineRun(identity))
}
