package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	swept, stormed                    string
	failed                            bool
	// mute counts the rounds that passed and left no line: what they did is not in the sums.
	mute int
}

// run builds the tests, for which the plan has no time, and carries the plan out. Its error is one that kept it from doing so; what it
// found wrong is no error.
func (t *torture) run(ctx context.Context) (err error) {
	text, digest := t.plan.told()
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
	if t.plan.sweep > 0 {
		if err := t.sweep(ctx, t.plan.sweep); err != nil {
			return err
		}
		if err := t.storm(ctx, t.plan.storm); err != nil {
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

// sweep kills processes at one command after the other.
func (t *torture) sweep(ctx context.Context, lasting time.Duration) error {
	began := time.Now()
	said, passed, err := t.test(ctx, "TestCrashPoints", lasting, "BELAY_SWEEP="+lasting.String(), "BELAY_SEED="+strconv.FormatUint(t.plan.seed, 10))
	if err != nil {
		return err
	}
	if points := regexp.MustCompile(`(\d+) points of (\d+) were tried`).FindStringSubmatch(said); points != nil {
		t.swept = fmt.Sprintf("%s of %s crash points", oracle.Thousands(number(points[1])), oracle.Thousands(number(points[2])))
	}
	fmt.Printf("sweep: %s, %v, oracle: %s steps: %s\n", t.swept, time.Since(began).Round(time.Second), oracle.Thousands(t.read(said)), word(passed))
	return nil
}

// storm has rivals pushed and run while processes are killed, and judges their locks.
func (t *torture) storm(ctx context.Context, lasting time.Duration) error {
	began := time.Now()
	said, passed, err := t.test(ctx, "TestRivals", lasting, "BELAY_STORM="+lasting.String(), "BELAY_SEED="+strconv.FormatUint(t.plan.seed, 10))
	if err != nil {
		return err
	}
	if told := regexp.MustCompile(`storm: (\d+) pushes: (\d+) accepted, (\d+) refused`).FindStringSubmatch(said); told != nil {
		t.stormed = fmt.Sprintf("%s unique pushes, %s of them refused", oracle.Thousands(number(told[1])), oracle.Thousands(number(told[3])))
	}
	fmt.Printf("storm: %s, %v, oracle: %s steps: %s\n", t.stormed, time.Since(began).Round(time.Second), oracle.Thousands(t.read(said)), word(passed))
	return nil
}

// round is one run of chaos.
func (t *torture) round(ctx context.Context, r round) error {
	t.rounds++
	lines := t.out
	if lines == "" {
		lines = filepath.Join(t.dir, "rounds.jsonl")
	}
	before := size(lines)
	said, passed, err := t.test(ctx, "TestChaos", r.span, "BELAY_SEED="+strconv.FormatUint(r.seed, 10), "BELAY_CHAOS="+r.span.String(),
		"BELAY_CHAOS_SETTINGS="+r.settings, "BELAY_CHAOS_OUT="+lines)
	if err != nil {
		return err
	}
	steps := t.read(said)
	s := lastLine(lines, before)
	if s == nil && passed {
		fmt.Printf("round %d: seed %d, %s settings, %v: lawful, but it left no line in %s\n", t.rounds, r.seed, r.settings, r.span, lines)
		t.mute++
		return nil
	}
	if s == nil {
		fmt.Printf("round %d: seed %d, %s settings, %v: it did not come to a verdict\n", t.rounds, r.seed, r.settings, r.span)
		return nil
	}
	jobs := 0
	for _, n := range s.Jobs {
		jobs += n
	}
	t.faults, t.kills, t.jobs, t.lost = t.faults+s.Faults, t.kills+s.Kills, t.jobs+jobs, t.lost+s.Lost
	fmt.Printf("round %d: seed %d, plan %s, %s settings, %.0f s: %s jobs, %d faults, %d kills, oracle: %s steps, %d violations, lost: %d: %s\n", t.rounds, r.seed,
		s.Plan, r.settings, s.Seconds, oracle.Thousands(jobs), s.Faults, s.Kills, oracle.Thousands(steps), s.Violations, s.Lost, word(passed))
	return nil
}

func word(passed bool) string {
	if passed {
		return "lawful"
	}
	return "UNLAWFUL"
}

// test runs one test, that does something for so long, and answers what it said and whether it passed. What a failed one
// said is printed.
func (t *torture) test(ctx context.Context, name string, lasting time.Duration, env ...string) (said string, passed bool, err error) {
	cmd := exec.CommandContext(ctx, t.program, "-test.run", "^"+name+"$", "-test.v", "-test.timeout", (2*lasting + stuck).String())
	cmd.Dir = "integration"
	cmd.Env = append(append(os.Environ(), env...), "TMPDIR="+t.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // and with it dies all that it has started
	runtime.LockOSThread()                                             // whose end is what the signal tells
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	said = string(out)
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return said, false, errors.New("interrupted")
	case err != nil && !errors.As(err, &ended):
		return said, false, fmt.Errorf("run %s: %w", name, err)
	case err == nil && !strings.Contains(said, "--- PASS: "+name):
		return said, false, fmt.Errorf("there is no test %s", name)
	}
	if err != nil {
		fmt.Print(said)
		t.failed = true
	}
	return said, err == nil, nil
}

// sentence is what an oracle says of a log.
var sentence = regexp.MustCompile(`oracle: ([\d,]+) steps, [\d,]+ jobs, ([\d,]+) violations`)

// read counts the steps that the oracles of a test saw, and answers them.
func (t *torture) read(said string) (steps int) {
	for _, found := range sentence.FindAllStringSubmatch(said, -1) {
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

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastLine reads the line that was added to a file since it had a size; nil when there is none.
func lastLine(path string, since int64) *summary {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	s := new(summary)
	if _, err := file.Seek(since, io.SeekStart); err != nil || json.NewDecoder(file).Decode(s) != nil {
		return nil
	}
	return s
}

// tell prints the verdict on everything, and answers whether it is a good one.
func (t *torture) tell() bool {
	besides := ""
	for _, told := range []string{t.swept, t.stormed} {
		if told != "" {
			besides += "; " + told
		}
	}
	fmt.Printf("seed %d: %d rounds, %s jobs, %s faults, %s kills%s\n", t.plan.seed, t.rounds, oracle.Thousands(t.jobs), oracle.Thousands(t.faults), oracle.Thousands(t.kills), besides)
	fmt.Printf("oracle: %s steps, %s violations\n", oracle.Thousands(t.steps), oracle.Thousands(t.violations))
	verdict := word(!t.failed)
	if t.mute > 0 {
		verdict += fmt.Sprintf("; rounds that left no line, and are not counted: %d", t.mute)
	}
	fmt.Printf("verdict: %s\n", verdict)
	fmt.Printf("lost: %s\n", oracle.Thousands(t.lost))
	return !t.failed && t.mute == 0 && t.violations == 0 && t.lost == 0
}
