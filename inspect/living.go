package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Living counts the processes that were StateAlive at the time of a Status, or of Sizes. In contrast to its
// ProcessCount it leaves out those that ended without deregistering: only a living worker removes them from
// Sidekiq's list of processes, so the list stays as it is when all workers are killed. It counts all processes
// of Belay, and those of Sidekiq among 1,000 members of the list.
func (i *Inspector) Living(ctx context.Context, s Status) (int, error) {
	r := reading{err: s.ProcessesErr}
	since := "(" + strconv.FormatInt(s.At.UnixMilli(), 10) // as Process.setState has it: the lease ends in the future
	count := 0
	if r.ok() {
		count = int(r.number("alive", i.do(ctx, []driver.Call{driver.Command("ZCOUNT", i.keys.Alive(), since, "+inf")})[0]))
	}
	if r.ok() && int64(count) != s.ProcessCount { // some have ended, or are of Sidekiq
		count = i.livingByName(ctx, &r, s.At, since)
	}
	if err := cmp.Or(r.err, errors.Join(r.refused...)); err != nil {
		return 0, fmt.Errorf("count the living processes: %w", err)
	}
	return count, nil
}

// livingByName counts living processes by their names. Of those of Belay it reads the names alone.
func (i *Inspector) livingByName(ctx context.Context, r *reading, now time.Time, since string) int {
	listed := r.texts("processes", i.do(ctx, []driver.Call{driver.Command("SRANDMEMBER", i.keys.Processes(), strconv.Itoa(maxShown))})[0])
	living := make(map[string]bool)
	for first := 0; r.ok(); first += maxShown {
		page := i.do(ctx, []driver.Call{driver.Command("ZRANGE", i.keys.Alive(), since, "+inf",
			"BYSCORE", "LIMIT", strconv.Itoa(first), strconv.Itoa(maxShown))})
		names := r.texts("alive", page[0])
		for _, identity := range names {
			living[identity] = true
		}
		if len(names) < maxShown {
			break
		}
	}
	count := len(living)
	others := slices.DeleteFunc(listed, func(identity string) bool { return living[identity] })
	for page := range slices.Chunk(others, lua.MaxItems) {
		if r.ok() {
			count += i.livingOf(ctx, r, page, now)
		}
	}
	return count
}

// livingOf counts the living processes among a page of them.
func (i *Inspector) livingOf(ctx context.Context, r *reading, page []string, now time.Time) (count int) {
	var calls []driver.Call
	for _, identity := range page {
		calls = append(calls,
			driver.Command("ZSCORE", i.keys.Alive(), identity),
			// Sidekiq writes these together. Its info may be long.
			driver.Command("HMGET", i.keys.Process(identity), "busy", "beat", "quiet"))
	}
	replies := i.do(ctx, calls)
	for n, identity := range page {
		p := Process{Identity: identity}
		expiry, _ := r.value("alive", replies[2*n]).(string)
		fields := r.texts("process "+identity, replies[2*n+1])
		if p.setState(expiry, slices.ContainsFunc(fields, func(field string) bool { return field != "" }), now); p.State == StateAlive {
			count++
		}
	}
	return count
}
