package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/belayq/belay/integration/oracle"
)

// stuck is how much longer than expected a test may take before it is ended.
const stuck = 5 * time.Minute

// torture is one run of this program, and what it has found so far.
type torture struct {
	plan plan
	out  string // absolute, or empty

	dir, program string

	rounds, faults, kills, jobs, lost int
	steps, violations                 int
	did                               string // by the sweep and the storms
	failed                            bool
	// mute counts the rounds that passed and left no line: what they did is not in the sums.
	mute int
}

// run builds the tests, for which the plan has no time, and carries the plan out. Its error is one that kept it
// from doing so; what it found wrong is no error.
func (t *torture) run(ctx context.Context) (err error) {
	text, digest := t.plan.describe()
	fmt.Printf("torture: seed %d, about %v and the build, plan %s\n%s", t.plan.seed, t.plan.lasting, digest, text)
	if t.dir, err = os.MkdirTemp("", "belay-torture-"); err != nil {
		return err
	}
	defer func() {
		if t.failed && ctx.Err() == nil {
			fmt.Printf("torture: the folders of the failed runs are in %s\n", t.dir)
			return
		}
		_ = os.RemoveAll(t.dir)
	}()
	t.program = filepath.Join(t.dir, "integration.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", t.program, "./integration").CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of ./integration: %w\n%s", err, out)
	}
	return t.perform(ctx)
}

// perform does all that is planned, however long it takes.
func (t *torture) perform(ctx context.Context) error {
	for _, p := range []part{
		{"sweep", "TestCrashPoints", "BELAY_SWEEP", `(\d+) points of (\d+) were tried`, "%s of %s crash points", t.plan.sweep},
		{"storm", "TestRivals", "BELAY_STORM", `storm: (\d+) pushes: \d+ accepted, (\d+) refused`,
			"%s unique pushes, %s of them refused", t.plan.storm},
		{"batches", "TestBatchesInAStorm", "BELAY_BATCHES", `batches: (\d+) batches, (\d+) members`, "%s batches with %s members", t.plan.storm},
	} {
		if p.lasting == 0 {
			continue
		}
		if err := t.part(ctx, p); err != nil {
			return err
		}
	}
	for _, r := range t.plan.rounds {
		if err := t.round(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// A part is a test that goes on for a while: the sweep, which kills processes at one command after the other,
// and the storms of unique jobs and of batches. Its log says in numbers, by the pattern, what it did.
type part struct {
	name, test, span string
	pattern, summary string
	lasting          time.Duration
}

func (t *torture) part(ctx context.Context, p part) error {
	began := time.Now()
	output, passed, err := t.test(ctx, p.test, p.lasting, p.span+"="+p.lasting.String(), "BELAY_SEED="+strconv.FormatUint(t.plan.seed, 10))
	if err != nil {
		return err
	}
	did := ""
	if found := regexp.MustCompile(p.pattern).FindStringSubmatch(output); found != nil {
		did = fmt.Sprintf(p.summary, oracle.Thousands(number(found[1])), oracle.Thousands(number(found[2])))
		t.did += "; " + did
	}
	fmt.Printf("%s: %s, %v, oracle: %s steps: %s\n", p.name, did, time.Since(began).Round(time.Second), oracle.Thousands(t.read(output)), word(passed))
	return nil
}

// round is one run of chaos.
func (t *torture) round(ctx context.Context, r round) error {
	t.rounds++
	lines := filepath.Join(t.dir, fmt.Sprintf("round-%d.json", t.rounds))
	output, passed, err := t.test(ctx, "TestChaos", r.span, "BELAY_SEED="+strconv.FormatUint(r.seed, 10), "BELAY_CHAOS="+r.span.String(),
		"BELAY_CHAOS_SETTINGS="+r.settings, "BELAY_CHAOS_OUT="+lines)
	if err != nil {
		return err
	}
	steps := t.read(output)
	about := fmt.Sprintf("round %d: seed %d, %s settings, %v", t.rounds, r.seed, r.settings, r.span)
	line, _ := os.ReadFile(lines) // a round without a line is counted below
	var s summary
	read := json.Unmarshal(line, &s) == nil
	switch {
	case !read && passed:
		fmt.Printf("%s: lawful, but it left no line\n", about)
		t.mute++
		return nil
	case !read:
		fmt.Printf("%s: it did not come to a verdict\n", about)
		return nil
	}
	if err := t.keep(line); err != nil {
		return err
	}
	jobs := 0
	for _, n := range s.Jobs {
		jobs += n
	}
	t.faults, t.kills, t.jobs, t.lost = t.faults+s.Faults, t.kills+s.Kills, t.jobs+jobs, t.lost+s.Lost
	fmt.Printf("%s, plan %s, %.0f s: %s jobs, %d faults, %d kills, oracle: %s steps, %d violations, lost: %d: %s\n", about,
		s.Plan, s.Seconds, oracle.Thousands(jobs), s.Faults, s.Kills, oracle.Thousands(steps), s.Violations, s.Lost, word(passed))
	return nil
}

// keep adds a round's line to the file that was asked for.
func (t *torture) keep(line []byte) error {
	if t.out == "" {
		return nil
	}
	file, err := os.OpenFile(t.out, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(line)
	return errors.Join(err, file.Close())
}

func word(passed bool) string {
	if passed {
		return "lawful"
	}
	return "UNLAWFUL"
}

// test runs one test, that does something for so long, and answers what it said and whether it passed. What a
// failed one said is printed.
func (t *torture) test(ctx context.Context, name string, lasting time.Duration, env ...string) (output string, passed bool, err error) {
	cmd := exec.CommandContext(ctx, t.program, "-test.run", "^"+name+"$", "-test.v", "-test.timeout", (2*lasting + stuck).String())
	cmd.Dir = "integration"
	cmd.Env = append(append(os.Environ(), env...), "TMPDIR="+t.dir, "BELAY_SHARDS=")
	if t.plan.shards > 0 {
		cmd.Env = append(cmd.Env, "BELAY_SHARDS="+strconv.Itoa(t.plan.shards))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // and with it dies all that it has started
	runtime.LockOSThread()                                             // whose end is what the signal tells
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	output = string(out)
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return output, false, errors.New("interrupted")
	case err != nil && !errors.As(err, &ended):
		return output, false, fmt.Errorf("run %s: %w", name, err)
	case err == nil && !strings.Contains(output, "--- PASS: "+name):
		return output, false, fmt.Errorf("there is no test %s", name)
	}
	if err != nil {
		fmt.Print(output)
		t.failed = true
	}
	return output, err == nil, nil
}

// sentence is what an oracle says of a log.
var sentence = regexp.MustCompile(`oracle: ([\d,]+) steps, [\d,]+ jobs, ([\d,]+) violations`)

// read counts the steps that the oracles of a test saw, and answers them.
func (t *torture) read(output string) (steps int) {
	for _, found := range sentence.FindAllStringSubmatch(output, -1) {
		steps += number(found[1])
		t.violations += number(found[2])
	}
	t.steps += steps
	return steps
}

func number(text string) int {
	n, _ := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	return n
}

// A summary is what of a round's line is needed here.
type summary struct {
	Plan       string
	Seconds    float64
	Jobs       map[string]int
	Faults     int
	Kills      int
	Lost       int
	Violations int `json:"oracle_violations"`
}

// tell prints the verdict on everything, and answers whether it is a good one.
func (t *torture) tell() bool {
	fmt.Printf("seed %d: %d rounds, %s jobs, %s faults, %s kills%s\n", t.plan.seed, t.rounds, oracle.Thousands(t.jobs), oracle.Thousands(t.faults), oracle.Thousands(t.kills), t.did)
	fmt.Printf("oracle: %s steps, %s violations\n", oracle.Thousands(t.steps), oracle.Thousands(t.violations))
	verdict := word(!t.failed)
	if t.mute > 0 {
		verdict += fmt.Sprintf("; rounds that left no line, and are not counted: %d", t.mute)
	}
	fmt.Printf("verdict: %s\n", verdict)
	fmt.Printf("lost: %s\n", oracle.Thousands(t.lost))
	return !t.failed && t.mute == 0 && t.violations == 0 && t.lost == 0
}
