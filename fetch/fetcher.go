package fetch

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// Config is what a Fetcher needs to know.
type Config struct {
	Client driver.Client
	Keys   lua.Keys
	Clock  *lua.Clock
	Log    zerolog.Logger
	Order  *Order
	// Concurrency is how many processors there are: as many jobs at most are in hand.
	Concurrency int
	// Largest is how large an entry may be, in bytes, to be run; larger ones go to the dead set.
	Largest int
	// DeadMost and DeadFor bound the dead set.
	DeadMost int
	DeadFor  time.Duration
	// CallTimeout bounds each call that carries no jobs, except waits. A call that carries jobs has more
	// time, see lua.Pace.
	CallTimeout time.Duration
	// Reporter tells of outages. One of its own, writing to Log.
	Reporter *Reporter
	// DrainFor is how long at most nothing is taken so that the hands become empty for a suspect.
	DrainFor time.Duration
	// Unit is how instants are written into payloads.
	Unit job.TimeUnit
	// Company are the other Fetchers of this operating system process. One of its own, when there are none.
	Company *Company
}

const (
	// mostInFlight is how many pipelines may be under way: with one, a round trip of a millisecond settles into half
	// batches; more than four brought nothing.
	mostInFlight = 4
	// mostBatches is how many owed batches go into one pipeline.
	mostBatches = 2
	// longestWait bounds one idle wait. A wait costs one command, so this is an idle queue's cost: a quarter of a
	// command a second.
	longestWait = 4 * time.Second
	// shortWait bounds waits on a server that cannot release them.
	shortWait = time.Second
	// retryStuck is how often a settle is tried again that Redis refuses for a reason waiting does not cure.
	retryStuck = time.Minute
	// pacedTake is how often queues are looked at where blocking moves are refused (a full Redis).
	pacedTake = 250 * time.Millisecond
	// shunFor is how long a queue is left to others after one of its jobs was refused.
	shunFor = time.Second
)

// A Fetcher takes jobs for one process and settles them. It is confined to one goroutine, its user's, which alone calls
// its methods but Watched: Handle for each of Events, Ready and End for each run, Look after each beat, and Turn after any of them.
// Nothing here blocks on Redis; what does runs in goroutines of its own and reports through Events.
type Fetcher struct {
	cfg    Config
	lane   driver.Client
	events chan Event
	nudges <-chan struct{}
	life   *Life
	quiet  bool

	ready              []*Held  // taken, for processors that are idle
	unsaid             []*Held  // taken, and it is to be said to Redis that their run begins before it does
	starting           int      // those of which that is under way
	known              []string // jids of those whose end is confirmed, and for which something is kept no longer
	renew              bool     // the locks of what is in hand are to be renewed
	pending            []*Held  // ended, to be settled in the next turn
	owed               []*batch // settles whose answer did not come, to be sent again as they are
	apart              []*Held  // ended, to be settled each in a batch of its own
	stuck              []*Held  // settles that Redis refuses
	stuckAt            time.Time
	large              []lua.TooLarge // entries of our lists that are too large to be in hand
	running            int            // given to processors and not ended
	inFlight, promised int
	owing              int     // processors whose settles are unacked
	carrying           int     // bytes that the pipelines under way send or may return
	former             []*Life // earlier sessions that still had jobs in hand when the next one began

	dry                  bool // the last take found all queues empty, and nothing says otherwise since
	fenced               bool // the last take was refused: we are not alive, or hold a suspect unawares; the next confirmed beat ends it
	look                 bool // the lists' lengths are to be read
	paused, broken       map[string]bool
	shunned              map[string]time.Time // until when a queue is left to others
	noWaitsUntil, paceAt time.Time

	pace        lua.Pace
	probing     lua.Pace  // of pipelines that carry no jobs: where a new connection takes long, these wait longer too
	lastFailure error     // of a pipeline that carried jobs, until it is known whether Redis was away
	slowAt      time.Time // when a slow link was last logged

	waits    *waits
	crowded  atomic.Bool // Redis has refused a connection of this process: see yieldWaits
	strays   *strays
	suspects suspects
	outage   outage
	lease    lease
	calm     atomic.Pointer[calm]
	unlooked int // beats in a row that have stood for looks
	nextOp   int64
	takes    map[int64]bool // operations under way that may bring jobs
}

// lease is what leased remembers, until the next event or turn.
type lease struct {
	life  *Life
	holds bool
}

// NewFetcher makes a Fetcher; it opens nothing and starts nothing before Enter.
func NewFetcher(cfg Config) (*Fetcher, error) {
	lane, err := cfg.Client.Lane(mostInFlight)
	if err != nil {
		return nil, err
	}
	if cfg.Reporter == nil {
		cfg.Reporter = NewReporter(cfg.Log)
	}
	if cfg.Company == nil {
		cfg.Company = &Company{}
	}
	f := &Fetcher{
		cfg:  cfg,
		lane: lane,
		// Room for every operation that can be under way, so that none of their goroutines ever waits for its reader.
		events: make(chan Event, mostInFlight+2*lua.MostQueues),
		paused: make(map[string]bool), broken: make(map[string]bool), shunned: make(map[string]time.Time), takes: make(map[int64]bool),
		waits: newWaits(cfg.Client), strays: newStrays(), suspects: suspects{queues: make(map[string]bool)},
	}
	f.nudges = cfg.Company.join(f)
	return f, nil
}

// An Event is the end of something that was under way. Pass it to Handle.
type Event interface{ handle(f *Fetcher) }

// Events brings what has ended.
func (f *Fetcher) Events() <-chan Event { return f.events }

// Handle takes in what has ended.
func (f *Fetcher) Handle(event Event) {
	f.lease.life = nil
	event.handle(f)
}

// Enter makes life the one under which jobs are taken from now on. What is in hand under an earlier one is still settled
// under that.
func (f *Fetcher) Enter(life *Life) {
	f.former = slices.DeleteFunc(append(f.former, f.life), func(l *Life) bool { return l == nil || len(l.held) == 0 })
	f.life, f.dry, f.fenced, f.look = life, false, false, false
	f.strays.forget()
	f.suspects = suspects{queues: make(map[string]bool)}
	f.waits.release(nil)
}

// Quiet takes no more jobs, ever. Jobs still on their way go straight back. A second call does nothing more.
func (f *Fetcher) Quiet() {
	f.quiet = true
	f.giveBackAll()
	f.waits.release(nil)
	if f.suspects.draining != "" {
		f.endDrain()
	}
}

// Ready answers a job for an idle processor, if there is one. A job without a lease is not started: it stays in its
// list, and is found there when we are alive again, or by whoever declares us dead.
func (f *Fetcher) Ready() (*Held, bool) {
	for len(f.ready) > 0 {
		held := f.ready[0]
		f.ready = f.ready[1:]
		if !f.leased(held.Life) {
			f.suspects.doubt = f.suspects.doubt || (held.alone && held.Life == f.life)
			f.doubt(held.owner, nil)
			held.owner.drop(held)
			continue
		}
		held.phase = phaseRunning
		f.running++
		return held, true
	}
	f.ready = nil
	return nil, false
}

// leased is Life.Leased, asked once for the jobs that one event or turn has made ready: the clock that counts suspends
// is a system call, and a batch of jobs is started within microseconds.
func (f *Fetcher) leased(life *Life) bool {
	if f.lease.life != life {
		f.lease.life, f.lease.holds = life, life.Leased()
	}
	return f.lease.holds
}

// End says how the run of a job ended that Ready had answered. A job that was ended already stays as it was: its
// handler came back too late to be asked.
func (f *Fetcher) End(held *Held, outcome job.Outcome) {
	if held.phase != phaseRunning {
		return
	}
	f.running--
	f.finish(held, outcome)
}

// Refuse hands straight back a job that Ready answered and that must not run here now, and leaves its queue to others for
// a while: with nobody else there, taking and refusing it would be a spin.
func (f *Fetcher) Refuse(held *Held) {
	if held.phase == phaseRunning {
		f.running--
		f.giveBack(held)
	}
	if held.alone {
		delete(f.suspects.queues, held.Queue) // until the next look
		return
	}
	f.shunned[held.Queue] = time.Now().Add(shunFor)
	f.waits.release(map[string]bool{held.Queue: true})
}

// forgive lets queues be looked at again whose time has come, and answers when the next one's will.
func (f *Fetcher) forgive(now time.Time) (next time.Time) {
	for queue, until := range f.shunned {
		switch {
		case !now.Before(until):
			delete(f.shunned, queue)
			f.dry = false
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	return next
}

// finish queues the settle of a job in hand.
func (f *Fetcher) finish(held *Held, outcome job.Outcome) {
	held.phase, held.outcome = phaseEnded, outcome
	f.pending = append(f.pending, held)
}

// idle is how many processors could be promised a job now.
func (f *Fetcher) idle() int {
	return f.cfg.Concurrency - f.running - len(f.ready) - len(f.unsaid) - f.starting - f.promised - f.owing - len(f.pending)
}

// Settled says whether nothing is left that this process could still do for its jobs: every end is confirmed (or
// refused for good), and no wait is open that may still bring one.
func (f *Fetcher) Settled() bool {
	return f.inFlight == 0 && f.running == 0 && f.waits.open() == 0 &&
		len(f.pending) == 0 && len(f.apart) == 0 && len(f.owed) == 0 && len(f.ready) == 0 && len(f.unsaid) == 0 && len(f.strays.found) == 0 && len(f.large) == 0
}

// Turn sends what is to be sent now and answers when it wants to be called again at the latest; zero for no such time.
func (f *Fetcher) Turn() time.Time {
	now := time.Now()
	f.lease.life = nil
	f.retryStuck(now)
	forgiveAt := f.forgive(now)
	if f.outage.resting(now) {
		return f.outage.until
	}
	f.adopt()
	f.giveUpDrain(now)
	f.standAside(now)
	for f.mayFly() {
		x := f.compose(now)
		if x == nil {
			break
		}
		f.send(x)
	}
	f.adjustWaits(now)
	f.keepCompany()
	f.noteCalm()
	return earlier(f.wake(now), forgiveAt)
}

// earlier is the earlier of two instants, of which either may be none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// mayFly says whether another pipeline may be put under way. Beside one that is, a further one goes only with its share
// of the processors, so that over a long link all of them are in the air, and over a short one a pipeline carries what
// came back during the last. What is too little for a share goes when the next answer comes.
func (f *Fetcher) mayFly() bool {
	if f.inFlight == 0 {
		return true
	}
	return f.inFlight < mostInFlight && len(f.pending)+len(f.unsaid) >= max(f.cfg.Concurrency/mostInFlight, 1)
}

// wake is the next instant at which time alone makes something to do.
func (f *Fetcher) wake(now time.Time) time.Time {
	var at time.Time
	if f.dry && now.Before(f.noWaitsUntil) && !f.quiet {
		at = f.paceAt
		if f.noWaitsUntil.Before(at) {
			at = f.noWaitsUntil
		}
		if !at.After(now) {
			// There is a reason not to take just now; it ends with an event or with the next beat.
			at = now.Add(pacedTake)
		}
	}
	if len(f.stuck) > 0 {
		at = earlier(at, f.stuckAt)
	}
	if f.suspects.draining != "" {
		at = earlier(at, f.suspects.drainUntil)
	}
	return at
}

// Close ends the connections. Call it when nothing is under way any more, or when that does not matter.
func (f *Fetcher) Close() error {
	f.cfg.Company.leave(f)
	f.waits.close()
	return f.lane.Close()
}
