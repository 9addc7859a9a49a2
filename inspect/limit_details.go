package inspect

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // the hash by which Redis' scripts name a job
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
)

// LimitDetails are what is known about one limit.
type LimitDetails struct {
	Limit
	// Gates are its gates with jobs, at most 1,000 with waiting ones, by name.
	Gates []Gate `json:"gates"`
	// Holders are the runs and the callers of belay.Do that have a slot, at most 1,000 of each.
	Holders []Holder `json:"holders"`
	// Waiters are the next jobs at the gate, at most 25, if only one gate was asked for.
	Waiters []Entry `json:"waiters,omitempty"`
	// Problems describes what could not be read, at most 20.
	Problems []string `json:"problems,omitempty"`
}

// A Holder is a run that has a slot of a gate, or a caller of belay.Do.
type Holder struct {
	Gate string `json:"gate"`
	// Lease names a caller of belay.Do, of which nothing else is known; empty for a run.
	Lease   string `json:"lease,omitempty"`
	JID     string `json:"jid"`
	Class   string `json:"class"`
	Process string `json:"process"`
	State   State  `json:"process_state"`
	// Since is when the run began; zero until the process has reported it.
	Since time.Time `json:"since,omitzero"`
}

// maxLine is how many waiting jobs of a gate LimitDetails has.
const maxLine = 25

// Limit returns what is known about a limit, of all its gates or, unless key is nil, of the gate for one key.
// found is false if there is neither a size nor a job of it.
func (i *Inspector) Limit(ctx context.Context, name string, key *string) (d LimitDetails, found bool, err error) {
	var r reading
	d = LimitDetails{Limit: Limit{Name: name}, Gates: []Gate{}, Holders: []Holder{}}
	reply := i.driver.Do(ctx, driver.Command("HGET", i.keys.Limits(), name))[0]
	if text, _ := r.value("the limit "+name, reply).(string); text != "" {
		stored, err := lua.ParseLimit(name, text)
		if found = true; err != nil {
			r.problem("%v", err)
		} else {
			d.Limit = limitOf(stored)
		}
	}
	var only []string // the gate for the key: as it is, or a digest of the key
	if key != nil {
		only = []string{name + ":" + *key, limit.Limit{Name: name}.Gate(*key).Name}
	}
	gates, err := i.gates(ctx, &r, name, only...)
	if err != nil {
		return d, found, err
	}
	for _, gate := range gates {
		if found = true; key == nil || slices.Contains(only, gate.Name) {
			d.add(gate)
			d.Gates = append(d.Gates, gate)
		}
	}
	if found {
		err = i.fillHolders(ctx, &r, &d)
	}
	if found && err == nil {
		err = i.addLeases(ctx, &d)
	}
	if err == nil && key != nil && len(d.Gates) == 1 {
		d.Waiters, err = i.firstWaiters(ctx, d.Gates[0].Name)
	}
	d.Problems = r.problems
	return d, found, err
}

func (i *Inspector) firstWaiters(ctx context.Context, gate string) (waiters []Entry, err error) {
	for entry, err := range i.Entries(ctx, Waiters(gate), 0) {
		if err != nil {
			return waiters, err
		}
		if waiters = append(waiters, entry); len(waiters) == maxLine {
			break
		}
	}
	return waiters, nil
}

// fillHolders reads the runs that have a slot of one of the gates.
func (i *Inspector) fillHolders(ctx context.Context, r *reading, d *LimitDetails) error {
	alive := r.texts("the living processes", i.driver.Do(ctx, driver.Command("ZRANGE", i.keys.Alive(), "0", strconv.Itoa(maxShown-1)))[0])
	held := i.slots(ctx, r, alive)
	if r.err != nil || len(held) == 0 {
		return r.err
	}
	ends := time.Now().Add(searchTime)
	s := i.search(Query{Places: []Place{PlaceRunning}})
	s.visit = func(f Found) bool {
		if f.Entry == nil {
			return false
		}
		gate := held[f.Process][hashOf(f.Entry.raw.Bytes)]
		if slices.ContainsFunc(d.Gates, func(g Gate) bool { return g.Name == gate }) {
			d.Holders = append(d.Holders, Holder{Gate: gate, JID: f.JID, Class: f.Class, Process: f.Process, State: f.State, Since: f.Since})
		}
		return len(d.Holders) >= maxShown
	}
	s.pageEnd = func() bool { return !time.Now().Before(ends) }
	if stopped, err := s.run(ctx); err != nil {
		return fmt.Errorf("read the runs with slots: %w", err)
	} else if stopped {
		r.problem("not all runs were read")
	}
	return nil
}

// addLeases adds the callers of belay.Do that have a slot of one of the gates.
func (i *Inspector) addLeases(ctx context.Context, d *LimitDetails) error {
	leases, err := i.leases(ctx)
	if err != nil {
		return err
	}
	added := 0
	for _, lease := range leases {
		if slices.ContainsFunc(d.Gates, func(g Gate) bool { return g.Name == lease.Gate }) && added < maxShown {
			d.Holders = append(d.Holders, lease)
			added++
		}
	}
	return nil
}

// leases reads the slots of callers of belay.Do, about maxCounted of them, those that expire first.
func (i *Inspector) leases(ctx context.Context) (leases []Holder, err error) {
	err = i.walk(ctx, i.keys.Leases(), lua.Cursor{From: "-inf", To: "+inf"}, func(page []lua.Entry) bool {
		for _, entry := range page {
			gate, holder, _ := strings.Cut(entry.Bytes, "\n")
			leases = append(leases, Holder{Gate: gate, Lease: holder})
		}
		return len(leases) >= maxCounted
	})
	if err != nil {
		return nil, fmt.Errorf("read the slots of callers: %w", err)
	}
	slices.SortFunc(leases, func(a, b Holder) int { return cmp.Or(cmp.Compare(a.Gate, b.Gate), cmp.Compare(a.Lease, b.Lease)) })
	return slices.Compact(leases), nil // one that was renewed meanwhile is read again
}

// slots reads which gate each run with a slot has, by process and by hash: up to maxShown runs of each process.
func (i *Inspector) slots(ctx context.Context, r *reading, identities []string) map[string]map[string]string {
	most := strconv.Itoa(maxShown)
	held := make(map[string]map[string]string)
	for page := range slices.Chunk(identities, processesAtOnce) {
		var calls []driver.Call
		for _, identity := range page {
			calls = append(calls, driver.Command("HRANDFIELD", i.keys.Slots(identity), most, "WITHVALUES"))
		}
		for n, reply := range i.do(ctx, calls) {
			pairs := flat(r.value("the slots of "+page[n], reply))
			for at := 0; at+1 < len(pairs); at += 2 {
				if held[page[n]] == nil {
					held[page[n]] = make(map[string]string)
				}
				held[page[n]][pairs[at]] = pairs[at+1]
			}
		}
	}
	return held
}

// flat returns the texts of a reply of pairs, which RESP3 has as arrays of two.
func flat(value any) (texts []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, part := range v {
			texts = append(texts, flat(part)...)
		}
	}
	return texts
}

// hashOf returns the name of a job in the ledgers of slots and in the admissions.
func hashOf(bytes string) string {
	sum := sha1.Sum([]byte(bytes)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// GateOf returns the gate of a job that was found: where it waits, where it was admitted if it has not started
// yet, or whose slot it has while it runs; empty for none.
func (i *Inspector) GateOf(ctx context.Context, f Found) (string, error) {
	if f.Gate != "" || f.Entry == nil {
		return f.Gate, nil
	}
	var call driver.Call
	hash := hashOf(f.Entry.raw.Bytes)
	switch f.Place {
	case PlaceRunning:
		call = driver.Command("HGET", i.keys.Slots(f.Process), hash)
	case PlaceQueue:
		call = driver.Command("HGET", i.keys.Admitted(), hash)
	default:
		return "", nil
	}
	reply := i.driver.Do(ctx, call)[0]
	if reply.Err != nil {
		return "", fmt.Errorf("read the gate of %s: %w", f.JID, reply.Err)
	}
	text, _ := reply.Value.(string)
	if f.Place == PlaceRunning {
		return text, nil
	}
	admission, ok := lua.ParseAdmission(hash, text)
	if !ok || admission.Lapsed {
		return "", nil
	}
	return admission.Gate, nil
}
