// Package examples_test builds and runs every example, as its comment says, and looks at what it does.
package examples_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// programs is the folder of the programs that build has made.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "belay-examples-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := drivertest.Main(m)
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// patience bounds every wait: far above what anything here takes.
const patience = 60 * time.Second

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(t, "waited in vain for "+what)
		}
	}
}

// Two processes, one of them stopped and started anew: every second has one run.
func TestNightlyRunsOnceEachTime(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	program := build(t, "./nightly")
	start := func() *process { return startProcess(t, redis, program, "-cron", "@every 1s", "-log-level", "warn") }
	a, b := start(), start()
	var ticks []string
	reach := func(count int) {
		t.Helper()
		eventually(t, fmt.Sprint(count, " runs"), func() bool {
			ticks = regexp.MustCompile(`nightly \S+`).FindAllString(a.out.String()+b.out.String(), -1)
			return len(ticks) >= count
		})
	}
	reach(2)
	a.stop()
	reach(4)
	last := a.out.String()
	a = start()
	_, err := a.out.Write([]byte(last))
	require.NoError(t, err)
	reach(6)
	a.stop()
	b.stop()
	reach(6)
	for i, tick := range ticks {
		require.NotContains(t, ticks[:i], tick, "a time that ran twice")
	}
}

// A start, and one after a crash, adds nothing to what is scheduled already.
func TestNightlyAddsNoCopyAtEachStart(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	program := build(t, "./nightly")
	for n := range 3 {
		worker := startProcess(t, redis, program, "-cron", "0 0 1 1 *")
		eventually(t, "the worker to work", func() bool { return strings.Contains(worker.out.String(), "working") })
		if n == 1 {
			worker.signal(syscall.SIGKILL)
			require.Error(t, <-worker.done, "it was killed")
			continue
		}
		worker.stop()
	}
	require.Equal(t, 1, number(t, redis, "ZCARD", "belay:periodic"))
	require.Zero(t, number(t, redis, "LLEN", "queue:default"))
}

// One long job is stopped, killed and stopped, and no line is missing. Only a kill repeats lines.
func TestImportGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	const records = 4000
	redis := drivertest.Start(t)
	program := build(t, "./import")
	file := filepath.Join(t.TempDir(), "numbers.txt")
	var text strings.Builder
	for i := range records {
		fmt.Fprintln(&text, i)
	}
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	numbers := regexp.MustCompile(`(?m)^\d+$`)
	var all []string
	work := func(end func(p *process), words ...string) (lines []string) {
		t.Helper()
		p := startProcess(t, redis, program, append([]string{"-log-level", "warn", "-heartbeat", "100ms", "-ttl", "400ms"}, words...)...)
		eventually(t, "lines", func() bool { return len(numbers.FindAllString(p.out.String(), -1)) > 200 })
		end(p)
		lines = numbers.FindAllString(p.out.String(), -1)
		all = append(all, lines...)
		return lines
	}
	stop := func(p *process) { p.stop() }
	first := work(stop, "-push", file)
	require.Equal(t, strconv.Itoa(len(first)), work(func(p *process) {
		p.signal(syscall.SIGKILL)
		require.Error(t, <-p.done, "it was killed")
	})[0], "it goes on with the next line")
	work(func(p *process) {
		eventually(t, "the end", func() bool { return strings.Contains(p.out.String(), fmt.Sprintln(records-1)) })
		p.stop()
	})
	for i := range records {
		require.Contains(t, all, strconv.Itoa(i))
	}
	require.Equal(t, 0, number(t, redis, "EXISTS", "retry"))
}

// The first process is killed, and another one goes on with the sequence.
func TestSequenceGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	program := build(t, "./sequence")
	first := startProcess(t, redis, program, "-day", "2026-11-26", "-heartbeat", "100ms", "-ttl", "400ms", "-log-level", "warn")
	eventually(t, "the end of the first job", func() bool { return number(t, redis, "GET", "stat:processed") > 0 })
	first.signal(syscall.SIGKILL)
	require.Error(t, <-first.done, "it was killed")
	second := startProcess(t, redis, program, "-day", "2026-11-26", "-heartbeat", "100ms", "-ttl", "400ms", "-log-level", "warn")
	eventually(t, "the report", func() bool {
		return strings.Contains(first.out.String()+second.out.String(), "2026-11-26: 3 rows")
	})
	require.Zero(t, number(t, redis, "LLEN", "queue:default"))
}

func TestFanoutAddsUpWhatItsJobsReturn(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	p := startProcess(t, redis, build(t, "./fanout"), "-log-level", "warn")
	eventually(t, "the sum", func() bool { return strings.Contains(p.out.String(), "1000 rows, sum 999000") })
	p.stop()
}

// A file of many records goes into a Redis that becomes full in between: with the -skip that the first
// attempt prints, the second completes the first.
func TestBulkGoesOnWhereItBrokeOff(t *testing.T) {
	t.Parallel()
	const records = 20_000
	redis := drivertest.Start(t)
	program := build(t, "./bulk")
	var file strings.Builder
	for i := range records {
		fmt.Fprintf(&file, "%d,short\n", i)
	}
	info, _ := do(t, redis, "INFO", "memory").(string)
	used, err := strconv.Atoi(regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(info)[1])
	require.NoError(t, err)
	do(t, redis, "CONFIG", "SET", "maxmemory", strconv.Itoa(used+2<<20))
	output, err := run(t, redis, file.String(), program)
	require.Error(t, err)
	require.Contains(t, output, "out of memory")
	skip := regexp.MustCompile(`go on with (-skip) (\d+); 0 jobs`).FindStringSubmatch(output)
	require.NotNil(t, skip, output)
	require.NotEqual(t, "0", skip[2], "some went in before")
	do(t, redis, "CONFIG", "SET", "maxmemory", "0")

	output, err = run(t, redis, file.String(), program, skip[1:]...)
	require.NoError(t, err, output)
	require.Equal(t, records, number(t, redis, "LLEN", "queue:mail"))
	seen := make(map[string]bool)
	for _, payload := range list(t, redis, "LRANGE", "queue:mail", "0", "-1") {
		seen[regexp.MustCompile(`"args":\[(\d+),"short"]`).FindStringSubmatch(payload)[1]] = true
	}
	require.Len(t, seen, records, "every user once")
}

func TestBulkSaysWhichRecordIsWrong(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	program := build(t, "./bulk")
	output, err := run(t, redis, "1,a\n2,b\nthree,c\n4,d\n", program)
	require.Error(t, err)
	require.Contains(t, output, "2 jobs pushed")
	require.Contains(t, output, "record 3: ")
	require.Contains(t, output, "go on with -skip 2")
	require.Equal(t, 2, number(t, redis, "LLEN", "queue:mail"))
}

// The steps are those of the example's comment. The first release has jobs in hand when it is quieted.
func TestDeployLosesCutsOffAndDoublesNothing(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	program := build(t, "./deploy")
	client := build(t, "../cmd/belay")
	push := func(from, to int) {
		t.Helper()
		var jobs strings.Builder
		for month := from; month < to; month++ {
			fmt.Fprintf(&jobs, `{"class":"Report","args":["month-%d",5]}`+"\n", month)
		}
		output, err := run(t, redis, jobs.String(), client, "push", "--file", "-")
		require.NoError(t, err, output)
	}
	addr := drivertest.FreeAddr(t)
	push(0, 40)
	old := startProcess(t, redis, program, "-release", "v1", "-c", "4")
	eventually(t, "v1 to work", func() bool { return strings.Contains(old.out.String(), "v1 wrote") })
	next := startProcess(t, redis, program, "-release", "v2", "-c", "4", "-health-addr", addr)
	eventually(t, "v2 to be ready", func() bool {
		answer, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	old.signal(syscall.SIGTSTP)
	eventually(t, "v1 to be quiet", func() bool { return strings.Contains(old.out.String(), "v1 takes no more") })
	old.stop()
	require.Contains(t, old.out.String(), "v1 is done")
	push(40, 48)
	eventually(t, "v2 to write the rest", func() bool { return number(t, redis, "GET", "stat:processed") == 48 })
	next.stop()

	both := old.out.String() + next.out.String()
	for month := range 48 {
		require.Equal(t, 1, strings.Count(both, fmt.Sprintf("wrote month-%d\n", month)), "month %d in:\n%s", month, both)
	}
	require.NotContains(t, both, "requeues")
}

// A job that is longer than the stop has patience goes back, and is written by the next one.
func TestDeployRequeuesWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	program := build(t, "./deploy")
	client := build(t, "../cmd/belay")
	output, err := run(t, redis, "", client, "push", "Report", `"2026-11"`, "40") // four seconds
	require.NoError(t, err, output)
	old := startProcess(t, redis, program, "-shutdown-timeout", "100ms", "-heartbeat", "100ms")
	eventually(t, "v1 to begin the job", func() bool { return strings.Contains(old.out.String(), "v1 begins 2026-11") })
	old.stop()
	require.Regexp(t, `v1 requeues 2026-11 at page \d+ because of: .*shut`, old.out.String())
	require.Equal(t, 1, number(t, redis, "LLEN", "queue:default"))

	next := startProcess(t, redis, program, "-release", "v2")
	eventually(t, "v2 to write it", func() bool { return strings.Contains(next.out.String(), "v2 wrote 2026-11") })
	next.stop()
	require.Equal(t, 1, number(t, redis, "GET", "stat:processed"), "the requeued run does not count")
}

func TestAnyLanguageHandlesJobs(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("python3")
	require.NoError(t, err, "python3 not found: apt-get install python3")
	redis := drivertest.Start(t)
	belay := build(t, "../cmd/belay")
	output, err := run(t, redis, "", build(t, "./anylanguage"))
	require.NoError(t, err, output)
	require.Equal(t, "queued 42 <nil>\nqueued 9007199254740993 <nil>\nqueued 0 <nil>\n", output)

	outbox := filepath.Join(t.TempDir(), "outbox")
	worker := startProcess(t, redis, belay, "work", "-q", "mail", "--exec", "WelcomeEmail=python3 anylanguage/welcome.py "+outbox)
	eventually(t, "three runs", func() bool { return number(t, redis, "GET", "stat:processed") == 3 })
	worker.stop()
	sent, err := os.ReadFile(outbox)
	require.NoError(t, err)
	require.Len(t, strings.Split(strings.TrimSpace(string(sent)), "\n"), 2)
	require.Regexp(t, `(?m)^[0-9a-f]{24} short welcome to user 42$`, string(sent))
	require.Regexp(t, `(?m)^[0-9a-f]{24} long welcome to user 9007199254740993$`, string(sent))
	retries := list(t, redis, "ZRANGE", "retry", "0", "-1")
	require.Len(t, retries, 1)
	require.Contains(t, retries[0], `exit status 1: there is no user 0`)
}

func TestAnyLanguageContinuesFromACursor(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	belay := build(t, "../cmd/belay")
	orders := filepath.Join(t.TempDir(), "orders.csv")
	require.NoError(t, os.WriteFile(orders, []byte("one\ntwo\nthree\n"), 0o600))
	number(t, redis, "HSET", "it-orders", "c", "1")
	output, err := run(t, redis, "", belay, "push", "Import", `"`+orders+`"`, "--jid", "orders", "--track", "1h")
	require.NoError(t, err, output)
	worker := startProcess(t, redis, belay, "work", "--log-level", "debug", "--exec", "Import=python3 anylanguage/import.py")
	eventually(t, "its run", func() bool { return number(t, redis, "GET", "stat:processed") == 1 })
	worker.stop()
	require.Contains(t, worker.out.String(), `import two\nimport three`)
	require.NotContains(t, worker.out.String(), "import one")
	output, err = run(t, redis, "", belay, "find", "orders")
	require.NoError(t, err, output)
	require.Contains(t, output, `{"lines":3}`)
}

// builds has the build of each program that was asked for. Linking takes longer than most tests, so each
// program is built once.
var builds = struct {
	sync.Mutex
	of map[string]func() ([]byte, error)
}{of: map[string]func() ([]byte, error){}}

// build returns the path of the program of a package.
func build(t *testing.T, of string) (path string) {
	t.Helper()
	path = filepath.Join(programs, filepath.Base(of))
	builds.Lock()
	once := builds.of[of]
	if once == nil {
		once = sync.OnceValues(func() ([]byte, error) {
			return exec.Command("go", "build", "-ldflags=-w", "-o", path, of).CombinedOutput() // -w: no debugger will read them
		})
		builds.of[of] = once
	}
	builds.Unlock()
	output, err := once()
	require.NoError(t, err, string(output))
	return path
}

func environ(redis *drivertest.Server) []string {
	return append(os.Environ(), "REDIS_URL="+redis.URL())
}

// run runs a program to its end, and answers all that it said.
func run(t *testing.T, redis *drivertest.Server, in, program string, args ...string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stdin = environ(redis), strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A process is a program that goes on until it is stopped, at the latest when its test ends.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *drivertest.Buffer
	done chan error
}

func startProcess(t *testing.T, redis *drivertest.Server, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), out: &drivertest.Buffer{}, done: make(chan error, 1)}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = environ(redis), p.out, p.out
	require.NoError(t, p.cmd.Start())
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *process) signal(which os.Signal) { require.NoError(p.t, p.cmd.Process.Signal(which)) }

// stop asks the process to end, and waits until it has ended well.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		require.NoError(p.t, err, p.out.String())
	case <-time.After(patience):
		require.FailNow(p.t, "it does not stop", p.out.String())
	}
}

func do(t *testing.T, redis *drivertest.Server, words ...string) any {
	t.Helper()
	value, err := redis.Do(t.Context(), words...)
	require.NoError(t, err)
	return value
}

// number is an answer that is one; 0 for nil.
func number(t *testing.T, redis *drivertest.Server, words ...string) int {
	t.Helper()
	switch value := do(t, redis, words...).(type) {
	case int64:
		return int(value)
	case string:
		n, err := strconv.Atoi(value)
		require.NoError(t, err)
		return n
	}
	return 0
}

func list(t *testing.T, redis *drivertest.Server, words ...string) []string {
	t.Helper()
	values, _ := do(t, redis, words...).([]any)
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i], _ = value.(string)
	}
	return texts
}
