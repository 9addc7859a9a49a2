package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// field is what the next version writes into every job that it pushes, and this one does not know.
const field = `"x_next":{"a":[1.0]}`

// nextBelay builds a version of the program that may come next: every script has another text, so none of its
// names is known to a server that has only met ours, and every pushed job has one field more.
func nextBelay(t *testing.T) (path string) {
	t.Helper()
	dir, replace := t.TempDir(), make(map[string]string)
	change := func(file string, edit func(text string) string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		changed := filepath.Join(dir, fmt.Sprint(len(replace))+filepath.Ext(file))
		require.NoError(t, os.WriteFile(changed, []byte(edit(string(text))), 0o600))
		file, err = filepath.Abs(file)
		require.NoError(t, err)
		replace[file] = changed
	}
	scripts, err := filepath.Glob("../lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	for _, script := range scripts {
		change(script, func(text string) string { return text + "\n-- As the next version has it.\n" })
	}
	const before = `out = appendQuoted(append(out, ` + "`" + `,"class":` + "`" + `...), d.Class)`
	change("../job/draft.go", func(text string) string {
		require.Equal(t, 1, strings.Count(text, before), "job/draft.go has moved on: say here where a job gets its fields")
		return strings.Replace(text, before, "out = append(out, `,"+field+"`...)\n\t"+before, 1)
	})
	listed, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, listed, 0o600))
	path = filepath.Join(dir, "belay")
	require.NoError(t, goBuild(path, belayProgram, "-overlay", overlay))
	return path
}

// A rollout is a keyspace in which two versions work side by side.
type rollout struct {
	*site
	book       *ledger
	ours, next string // the programs
	failed     string // a directory with an entry for each job that has failed once
	pushed     map[string]int
	killed     map[int]bool // workers that were killed
}

// work starts a worker of a version. Only the next one knows the class Novel.
func (r *rollout) work(path string) *process {
	r.t.Helper()
	flaky := fmt.Sprintf(`Flaky=sh -c 'mkdir %s/$BELAY_JID 2>/dev/null && exit 1; exec %s %s'`, r.failed, handPath, r.book.path)
	words := append([]string{"work", "--redis", r.url, "--prefix", r.prefix, "--log-format", "json", "-c", "4",
		"--exec", r.book.exec("Known"), "--exec", flaky}, hardy...)
	if path == r.next {
		words = append(words, "--exec", r.book.exec("Novel"))
	}
	p := r.launch(path, words...)
	p.awaitLog("working")
	return p
}

// push pushes some jobs of each of these classes by a version's own producer.
func (r *rollout) push(path string, classes ...string) {
	r.t.Helper()
	var lines strings.Builder
	for range 12 {
		for _, class := range classes {
			r.pushed[class]++
			fmt.Fprintf(&lines, `{"class":%q,"args":%s}`+"\n", class, jsonArgs(r.pushed[class], 100))
		}
	}
	file := filepath.Join(r.t.TempDir(), "jobs")
	require.NoError(r.t, os.WriteFile(file, []byte(lines.String()), 0o600))
	out, err := exec.Command(path, "push", "--file", file, "--redis", r.url, "--prefix", r.prefix).CombinedOutput()
	require.NoError(r.t, err, "%s", out)
}

// replace starts a worker of a version and then ends one of another, as a deploy does, or an accident.
func (r *rollout) replace(old *process, path string, by syscall.Signal) *process {
	r.t.Helper()
	p := r.work(path)
	if by == syscall.SIGKILL {
		eventually(r.t, "it to have something in hand", func() bool { return len(r.list(r.keys.Working("default", old.identities()[0]))) > 0 })
		r.killed[old.pid] = true
		old.kill()
		return p
	}
	old.signal(by)
	require.Zero(r.t, old.wait(), old.log())
	return p
}

// due makes the time of all failed jobs of a class come.
func (r *rollout) due(class string) {
	r.t.Helper()
	for _, entry := range r.set(r.keys.Retry()) {
		if strings.Contains(entry, `"class":"`+class+`"`) {
			r.do("ZADD", r.keys.Retry(), "XX", "1", entry)
		}
	}
}

// await waits until all jobs of a class that were pushed so far have been done.
func (r *rollout) await(class string) {
	r.t.Helper()
	eventually(r.t, "all of "+class, func() bool {
		r.due(class)
		return len(r.done(class)) == r.pushed[class]
	})
}

// done are the jobs of a class that have been done, and how often they were begun by a worker that was not
// killed.
func (r *rollout) done(class string) map[string]int {
	r.t.Helper()
	ended := make(map[string]int)
	for _, m := range r.book.marks() {
		if m.Class != class {
			continue
		}
		if m.What == "end" {
			ended[string(m.Input)] += 0
		} else if !r.killed[m.Worker] {
			ended[string(m.Input)]++
		}
	}
	for input, begun := range ended {
		require.LessOrEqual(r.t, begun, 1, "%s was begun more than once", input)
	}
	return ended
}

// Two versions work side by side while one replaces the other, and while that is undone: each does the other's
// jobs, a field that it does not know stays, a class that it does not know waits for workers that do, each
// recovers what the other had in hand when it was killed.
func TestRollingUpgradeAndBack(t *testing.T) {
	t.Parallel()
	s := ordinarySite(t, oracle.Allow(oracle.Retry, oracle.Retry))
	r := &rollout{site: s, book: newLedger(t), ours: belayPath, next: nextBelay(t), failed: t.TempDir(), pushed: make(map[string]int), killed: make(map[int]bool)}
	a, b := r.work(r.ours), r.work(r.ours)
	r.push(r.ours, "Known", "Flaky")
	r.await("Known")
	cached := r.cachedScripts()

	r.push(r.ours, "Known", "Flaky")
	a = r.replace(a, r.next, syscall.SIGTERM)
	r.push(r.next, "Known", "Flaky", "Novel")
	b = r.replace(b, r.next, syscall.SIGKILL)
	require.Greater(t, r.cachedScripts(), cached+3, "the next version's scripts are ours: the test proves nothing")
	r.push(r.next, "Known", "Flaky", "Novel")
	r.await("Known")
	r.await("Flaky")
	r.await("Novel")

	r.push(r.next, "Known", "Flaky", "Novel")
	r.replace(a, r.ours, syscall.SIGKILL)
	r.push(r.next, "Known", "Flaky", "Novel")
	r.replace(b, r.ours, syscall.SIGTERM)
	r.push(r.ours, "Known", "Flaky")
	r.push(r.next, "Flaky", "Novel") // a producer that is not rolled back yet
	r.await("Known")
	eventually(t, "the flaky to fail, most of them in our hands", func() bool { return r.fieldsKept("Flaky", 24) })
	r.await("Flaky")
	eventually(t, "the unknown to be put off", func() bool {
		// A job whose worker was killed between its end and its settle is done and waits, too.
		return len(r.done("Novel"))+len(r.set(r.keys.Retry())) >= r.pushed["Novel"] && r.fieldsKept("Novel", 12)
	})
	r.work(r.next)
	r.await("Novel")
	eventually(t, "nothing to be left", func() bool {
		return len(r.set(r.keys.Retry()))+len(r.list(r.keys.Queue("default"))) == 0
	})
	require.Empty(t, s.set(s.keys.Dead()))
}

// fieldsKept is whether at least so many jobs of a class wait to be tried again, and holds that the next
// version's field is in all of those that have it from their producer. (Only that version pushes Novel.)
func (r *rollout) fieldsKept(class string, least int) bool {
	r.t.Helper()
	n := 0
	for _, entry := range r.set(r.keys.Retry()) {
		if !strings.Contains(entry, `"class":"`+class+`"`) {
			continue
		}
		n++
		require.True(r.t, class != "Novel" || strings.Contains(entry, field), entry)
		require.Equal(r.t, strings.Contains(entry, "x_next"), strings.Contains(entry, field), entry)
	}
	return n >= least
}

func (r *rollout) cachedScripts() (n int) {
	r.t.Helper()
	info, _ := r.do("INFO", "memory").(string)
	_, rest, found := strings.Cut(info, "number_of_cached_scripts:")
	require.True(r.t, found)
	_, err := fmt.Sscan(rest, &n)
	require.NoError(r.t, err)
	return n
}
