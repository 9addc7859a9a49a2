package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/lua"
)

// A BatchCheck is what CheckBatch has found.
type BatchCheck struct {
	ID string `json:"bid"`
	// Looked is how many pending members were looked for.
	Looked int `json:"looked"`
	// Lost are members that are pending and whose jobs are nowhere, at most 1,000 of them, and LostCount counts
	// all.
	Lost      []string `json:"lost"`
	LostCount int      `json:"lost_count"`
	// Removed is how many of them were removed from the batch.
	Removed int `json:"removed"`
	// Unseen describes what was not searched to the end: then a job that is not found may exist, and Lost has
	// none of the members that it concerns.
	Unseen []string `json:"unseen,omitempty"`
}

// maxLost bounds BatchCheck.Lost.
const maxLost = 1000

// CheckBatch looks for the job of each pending member of a batch. One that is nowhere was run or deleted by a
// program that knows no batches, was trimmed from the dead set, or had died without being kept: the batch would
// wait for it for ever. With remove such members are removed from the batch, which may complete it. The search
// ends before the deadline of ctx. found is false if there is no such batch.
func (i *Inspector) CheckBatch(ctx context.Context, id string, remove bool) (check BatchCheck, found bool, err error) {
	b, found, err := i.batch(ctx, id)
	if err != nil || !found {
		return check, found, err
	}
	check = BatchCheck{ID: id, Lost: []string{}}
	ends := time.Now().Add(cancelTime)
	if deadline, limited := ctx.Deadline(); limited {
		ends = time.Now().Add(time.Until(deadline) * 9 / 10)
	}
	for next := lua.FirstPage; ; {
		page, err := lua.NamePage(i.keys.BatchPending(id), next).Do(ctx, i.driver)
		if err != nil {
			return check, true, fmt.Errorf("read the members of batch %s: %w", id, err)
		}
		for chunk := range slices.Chunk(page.Names, lua.MaxItems) {
			if err := i.checkMembers(ctx, b, chunk, remove, ends, &check); err != nil {
				return check, true, fmt.Errorf("look for members of batch %s: %w", id, err)
			}
		}
		if next = page.Next; next == lua.LastPage || !time.Now().Before(ends) {
			if next != lua.LastPage {
				check.Unseen = append(check.Unseen, "it took too long: not all members were looked for")
			}
			return check, true, nil
		}
	}
}

// checkMembers looks for some pending members. The end job of a nested batch is nowhere until the batch calls
// it. So those that are still to come are left out after the first search, which finds nearly all other
// members. Then two more searches follow, which find those that were called before: a job may move against the
// order of one.
func (i *Inspector) checkMembers(ctx context.Context, b Batch, jids []string, remove bool, ends time.Time, check *BatchCheck) error {
	missing := make(map[string]bool, len(jids))
	for _, jid := range jids {
		if !strings.Contains(jid, " ") { // else it says that the batch is not sealed
			missing[jid] = true
		}
	}
	check.Looked += len(missing)
	for pass := range 3 {
		if pass == 1 {
			if err := i.withoutEnds(ctx, b.ID, missing); err != nil {
				return err
			}
		}
		if len(missing) == 0 {
			return nil
		}
		s := i.search(Query{IDs: slices.Sorted(maps.Keys(missing)), Places: []Place{PlaceScheduled, PlaceWaiting, PlaceQueue, PlaceQuarantined, PlaceRunning, PlaceRetry, PlaceDead}})
		s.visit = func(f Found) bool {
			delete(missing, f.JID)
			return len(missing) == 0
		}
		s.pageEnd = func() bool { return !time.Now().Before(ends) }
		stopped, err := s.run(ctx)
		switch {
		case err != nil:
			return err
		case stopped && len(missing) > 0:
			check.Unseen = append(check.Unseen, "it took too long: stopped in "+s.place)
			return nil
		case len(s.unseen) > 0:
			check.Unseen = append(check.Unseen, s.unseen...)
			return nil
		}
	}
	lost, err := i.stillPending(ctx, b.ID, slices.Sorted(maps.Keys(missing)))
	if err != nil {
		return err
	}
	check.LostCount += len(lost)
	check.Lost = append(check.Lost, lost[:min(len(lost), maxLost-len(check.Lost))]...)
	if len(lost) == 0 || !remove {
		return nil
	}
	removed, err := i.keys.RemoveMembers(lua.Batch{ID: b.ID, Queue: b.Queue}, lost).Do(ctx, i.driver)
	check.Removed += removed
	return err
}

// withoutEnds removes the end jobs of nested batches that have not been called from a set: they are to come.
func (i *Inspector) withoutEnds(ctx context.Context, id string, missing map[string]bool) error {
	if len(missing) == 0 {
		return nil
	}
	for nested, err := range i.Batches(ctx) {
		if err != nil {
			return err
		}
		if nested.Parent != id {
			continue
		}
		if nested.CompleteAt.IsZero() {
			delete(missing, nested.read.Complete)
		}
		if nested.SuccessAt.IsZero() {
			delete(missing, nested.read.Success)
		}
	}
	return nil
}

// stillPending returns those of some members that are pending: others have ended during the search.
func (i *Inspector) stillPending(ctx context.Context, id string, jids []string) ([]string, error) {
	if len(jids) == 0 {
		return nil, nil
	}
	are, err := i.keys.ArePending(id, jids).Do(ctx, i.driver)
	if err == nil && len(are) != len(jids) {
		err = errors.New("redis answers for other members")
	}
	if err != nil {
		return nil, err
	}
	var pending []string
	for n, jid := range jids {
		if are[n] == 1 {
			pending = append(pending, jid)
		}
	}
	return pending, nil
}
