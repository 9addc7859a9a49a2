package chaosplan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/belayq/belay/integration/history"
)

// Settings are what a run is made of besides its seed.
type Settings struct {
	// Name tells runs apart in summaries.
	Name string
	// Span is how long jobs are pushed and faults happen. What follows, until everything has ended, is not
	// counted.
	Span time.Duration
	// Rate is how many jobs are pushed in a second, and Pushers how many processes share that.
	Rate    float64
	Pushers int
	// Workers is how many there are at once. Those with an even number use go-redis, the others rueidis.
	Workers     int
	Concurrency int
	Beat, TTL   time.Duration
	// Save is the least time between two saves of a run's cursor.
	Save time.Duration
	// ShutdownTimeout is over before the longest jobs end.
	ShutdownTimeout time.Duration
	// Recovery is within what time a killed worker's jobs are to run again.
	Recovery time.Duration
	// Ahead is the most that a scheduled job waits; Longest is how long the longest job takes, in lives (TTL).
	Ahead   time.Duration
	Longest float64
	// Long is the share of jobs that take one TTL at least. More than the fleet has time for between two kills
	// would be interrupted again and again, and the run would be about nothing else.
	Long float64
	// Pause is the mean time from the beginning of one fault to that of the next.
	Pause time.Duration
	// KillsOnly leaves out all faults but the killing of workers, which are then so much fewer.
	KillsOnly bool `json:",omitempty"`
}

// Fast are settings under which a death is noticed within two seconds, for short runs.
func Fast(span time.Duration) Settings {
	return Settings{
		Name: "fast", Span: span, Rate: 70, Pushers: 2, Workers: 4, Concurrency: 12, Beat: 300 * time.Millisecond, TTL: 1500 * time.Millisecond,
		Save: 300 * time.Millisecond, ShutdownTimeout: time.Second, Recovery: 6 * time.Second,
		Ahead: 4 * time.Second, Longest: 2, Long: 0.06, Pause: 300 * time.Millisecond,
	}
}

// Default are Belay's own defaults, but for the shutdown timeout.
func Default(span time.Duration) Settings {
	return Settings{
		Name: "default", Span: span, Rate: 80, Pushers: 2, Workers: 4, Concurrency: 25, Beat: 1500 * time.Millisecond, TTL: 6 * time.Second,
		Save: time.Second, ShutdownTimeout: 5 * time.Second, Recovery: 15 * time.Second,
		Ahead: 10 * time.Second, Longest: 3, Long: 0.006, Pause: 900 * time.Millisecond,
	}
}

// Kills are Default's, with nothing but the killing of workers: what is promised for a killed worker's jobs is
// then to be seen by itself.
func Kills(span time.Duration) Settings {
	s := Default(span)
	s.Name, s.KillsOnly = "kills", true
	return s
}

// Named are the settings of that name.
func Named(name string, span time.Duration) (s Settings, ok bool) {
	for _, s := range []Settings{Fast(span), Default(span), Kills(span)} {
		if s.Name == name {
			return s, true
		}
	}
	return s, false
}

// A Plan is what is to happen. All times count from the run's beginning.
type Plan struct {
	Seed     uint64
	Settings Settings
	Jobs     []Job
	Acts     []Act
}

// New draws the plan of a seed.
func New(seed uint64, s Settings) *Plan {
	p := &Plan{Seed: seed, Settings: s}
	// Two streams, so that a change in one part leaves the other as it was.
	p.Jobs = jobs(rand.New(rand.NewPCG(seed, 1)), s)
	p.Acts = acts(rand.New(rand.NewPCG(seed, 2)), s)
	return p
}

// Digest is a short name for all that is in the plan: equal plans have equal digests.
func (p *Plan) Digest() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("chaosplan: %v", err)) // it is made of values that have JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Of are the jobs that one pusher pushes, in their order.
func (p *Plan) Of(pusher int) []Job {
	return slices.DeleteFunc(slices.Clone(p.Jobs), func(j Job) bool { return j.Pusher != pusher })
}

// Ahead is the farthest that Redis' clock is ever ahead of the true time.
func (p *Plan) Ahead() time.Duration {
	var most time.Duration
	for _, a := range p.Acts {
		most = max(most, a.Shift)
	}
	return most
}

// Kinds counts the jobs by their kind.
func (p *Plan) Kinds() map[string]int {
	kinds := make(map[string]int)
	for _, j := range p.Jobs {
		kinds[j.Spec.Kind]++
	}
	return kinds
}

// A Job is one that the plan pushes.
type Job struct {
	// At is when, at the earliest.
	At     time.Duration
	Pusher int
	Token  string
	JID    string
	Class  string
	Queue  string
	// Batch is the number of those that are pushed together; 0 is by itself.
	Batch int `json:",omitempty"`
	// Raw says that it is written past the client, as Ruby writes.
	Raw  bool `json:",omitempty"`
	Spec history.Spec
}

// planFile is where a run's folder has its plan.
const planFile = "plan.json"

// Save writes the plan into a run's folder.
func (p *Plan) Save(dir string) error {
	text, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, planFile), text, 0o600)
	}
	return err
}

// Load reads what Save has written.
func Load(dir string) (*Plan, error) {
	text, err := os.ReadFile(filepath.Join(dir, planFile))
	if err != nil {
		return nil, err
	}
	p := new(Plan)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w", planFile, err)
	}
	return p, nil
}
