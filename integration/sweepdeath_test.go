package integration

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// A moment is where within a command's way its sender dies.
type moment string

const (
	// before: the server has not received the command.
	before moment = "before"
	// executed: the command has been executed, and no reply was delivered.
	executed moment = "executed"
	// answered: the answer has been delivered. How much of it was still acted upon is chance.
	answered moment = "answered"
)

// A point is where the owner of a play dies: at a moment of the nth command of a kind that it sends. Commands
// are counted kind by kind, because how many there are of one (beats, looks for due jobs) depends on how fast
// the machine is, and where the others stand among them does not matter. The zero point is nowhere.
type point struct {
	play, client, kind string
	nth                int
	at                 moment
}

func (p point) String() string {
	if p.kind == "" {
		return p.play + "/" + p.client + "/to_its_end"
	}
	return fmt.Sprintf("%s/%s/%s/%d/%s", p.play, p.client, p.kind, p.nth, p.at)
}

// pointOf reads what String wrote.
func pointOf(text string) (p point, ok bool) {
	words := strings.Split(text, "/")
	if len(words) != 5 || plays[words[0]] == nil {
		return point{}, false
	}
	nth, err := strconv.Atoi(words[3])
	return point{words[0], words[1], words[2], nth, moment(words[4])}, err == nil
}

// A kind is what a command is for, known by what stands in it.
type kind struct{ name, token string }

// scriptLoad is the kind that only a newcomer sends.
const scriptLoad = "load"

// kinds are all there are. A command is of the first kind whose token it contains, and of the last if of no
// other.
func kinds(k lua.Keys) []kind {
	settle, recovers := address(k.Settle(lua.Settlement{}).Call), address(k.Recover("", nil, nil, time.Time{}).Call)
	return []kind{
		// The text of a script that the server does not know yet; of interest only where that is so.
		{scriptLoad, "#!lua"},
		// Words that are arguments of one script only tell its uses apart; of several in one command the first
		// counts.
		{"start", address(k.Start("", nil).Call)},
		{"admit", address(k.Admit("", "").Call)},
		{"heads", address(k.Heads(nil).Call)},
		{"lapse", address(k.Lapse(nil).Call)},
		{"limit", address(k.ChangeLimits("", nil).Call)},
		{"free_slots", address(k.FreeSlots("", nil).Call)},
		{"acquire", address(k.Acquire(lua.Gate{}, "").Call)},
		{"free_leases", address(k.FreeLeases().Call)},
		{"settle-frees", word("frees")}, // a slot, and admits a waiter for it
		{"read-admitted", word("HRANDFIELD")},
		{"settle-next", word("next")},
		{"settle-retry", word("retry")},
		{"settle-snoozed", word("snoozed")},
		{"settle-dead", word("dead")},
		{"settle-requeued", word("requeued")},
		{"settle-cancelled", word("cancelled")},
		{"batch-new", address(k.NewBatch(lua.NewBatch{}).Call)},
		{"batch-seal", address(k.SealBatch(lua.Batch{}).Call)},
		{"member", ":pending"}, // a push, a settle or a recovery of members
		{"read-batches", word(k.Batches())},
		{"settle-done", settle},
		{"recover-quarantined", word("quarantine")},
		{"recover", recovers},
		{"heartbeat", address(k.Heartbeat("", 0).Call)}, // it names the leases, too
		{"lease-poller", word(k.Poller())},
		{"lease-sweeper", word(k.Sweeper())},
		{"lease-claim", k.Claim("")},
		{"lease-watcher", word(k.Watcher())},
		{"lease-deputy", word(k.Deputy())},
		{"presence", address(k.LookAtPresence("", 0).Call)},
		{"take", address(k.Take("", nil, 0, 0, 0).Call)},
		{"take_quarantined", address(k.TakeQuarantined("", nil, nil).Call)},
		{"drain", address(k.Drain("", "", 0, 0).Call)},
		{"due", address(k.Due("", 0, 0, 0).Call)},
		{"promote", address(k.Promote("", nil, time.Time{}).Call)},
		{"define", address(k.Define(lua.Registrar{}, nil).Call)},
		{"tick", address(k.Tick(lua.Plan{}, nil).Call)},
		{"read-rules", word(k.Classes())},
		{"read-marks", address(k.PageAfter("", lua.Cursor{}).Call)},
		{"register", address(k.Register("", lua.Record{}).Call)},
		{"serve", address(k.Serve("", nil, nil, 0).Call)},
		{"announce", address(k.Announce("", nil, nil).Call)},
		{"statistics", address(k.AddFigures(nil, time.Time{}))},
		{"sample", address(k.AddSample(lua.Sample{}).Call)},
		{"deregister", address(k.Deregister("", nil).Call)},
		{"lengths", address(lua.Lengths(nil).Call)},
		{"entries", address(k.Entries("", 0, 0, 0).Call)},
		{"move", word("BLMOVE")},
		{"unblock", word("UNBLOCK")},
		// Of a command that stores jobs: its script is known by the job in it, and by no other that has none.
		{"push-queues", word("SADD")},
		{"push-one-queue", word("LPUSH")},
		{"push", `"created_at":`},
		{"read-periodic", word(k.PeriodicDefinitions())},
		{"count-uptime", word(k.PeriodicUptime())},
		{"read-queues", word("SSCAN")},
		{"read-paused", word("SMISMEMBER")},
		{"read-tombstones", word("ZREVRANGE")},
		{"read-old-tombstones", word("ZRANGEBYSCORE")},
		{"read-waiting", word("ZRANGE")},
		{"read-record", k.Record("")},
		// What a client library says when it connects.
		{"other", ""},
	}
}

// word is a word of a command as it stands on the wire.
func word(text string) string { return fmt.Sprintf("\r\n$%d\r\n%s\r\n", len(text), text) }

// A death watches what an owner says and hears, and kills it at its point.
type death struct {
	point point
	proxy *faultproxy.Proxy
	owner chan *process // holds it as soon as it is started

	mu      sync.Mutex
	said    map[string]int // commands that have come, by kind
	replies map[string]int
	met     bool // the point was met
}

func newDeath(s *site, proxy *faultproxy.Proxy, at point) *death {
	d := &death{point: at, proxy: proxy, owner: make(chan *process, 1), said: make(map[string]int), replies: make(map[string]int)}
	// Before the answer is passed on, or after.
	when := faultproxy.Before
	if at.at == answered {
		when = faultproxy.After
	}
	for _, of := range kinds(s.keys) {
		proxy.Add(
			faultproxy.Rule{On: faultproxy.Requests, Token: of.token, Do: faultproxy.Before(func() { d.comes(d.said, of.name, at.at == before) })},
			faultproxy.Rule{On: faultproxy.Replies, Token: of.token, Do: when(func() { d.comes(d.replies, of.name, at.at != before) })})
	}
	return d
}

// comes counts a command or an answer, and kills the owner if this is the one.
func (d *death) comes(counts map[string]int, of string, fatal bool) {
	d.mu.Lock()
	counts[of]++
	now := fatal && of == d.point.kind && counts[of] == d.point.nth && !d.met
	d.met = d.met || now
	d.mu.Unlock()
	if !now {
		return
	}
	owner := <-d.owner
	d.owner <- owner
	owner.kill()
	if d.point.at == before {
		d.proxy.CloseConns() // or the proxy would pass the command on
	}
}

// wasMet is whether the owner came to its point.
func (d *death) wasMet() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.met
}

// seen is a copy of the counts.
func (d *death) seen() (commands, replies map[string]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.said), maps.Clone(d.replies)
}

// points are all points that lie in what an owner sent and received without a fault.
func points(play, client string, commands, replies map[string]int) []point {
	var found []point
	for _, kind := range slices.Sorted(maps.Keys(commands)) {
		for nth := 1; nth <= commands[kind]; nth++ {
			found = append(found, point{play, client, kind, nth, before})
			if nth <= replies[kind] {
				found = append(found, point{play, client, kind, nth, executed}, point{play, client, kind, nth, answered})
			}
		}
	}
	return found
}
