package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// newUniqueSite is a server for Belay and for Ruby with contrib/ruby/belay.rb.
func newUniqueSite(t *testing.T) (s *site, ruby *rubySide, env string) {
	t.Helper()
	file, err := filepath.Abs("../contrib/ruby/belay.rb")
	require.NoError(t, err)
	s = newSite(t, drivertest.Start(t))
	s.use("")
	env = "BELAY_RB=" + file
	return s, startRuby(t, s.url, env), env
}

// unique is a push of a unique job by Ruby; its answer is the jid, or "" for a duplicate.
func (r *rubySide) unique(t *testing.T, class, queue string, args []any, rule map[string]any) (jid string) {
	t.Helper()
	return r.push(t, map[string]any{"class": class, "queue": queue, "args": args, "retry": 0, "belay_unique": rule})
}

// A lock that one language takes refuses the other's push, and whichever language runs the job releases it.
func TestUniqueJobsHoldAcrossLanguages(t *testing.T) {
	t.Parallel()
	s, ruby, env := newUniqueSite(t)
	executed := map[string]any{"until": "until_executed"}
	odd := []any{1, 1.5, "é<&>\u2028", nil, map[string]any{"z": 1, "a": []any{true}}}
	oddWords := []string{"1", "1.50", `"é<&>\u2028"`, "null", `{"a":[true],"z":1.0}`}
	goPush := func(queue string, words ...string) int {
		out, errs, code := s.belay(append([]string{"push", "-q", queue, "--unique=until_executed"}, words...)...)
		require.Contains(t, []int{0, 3}, code, out+errs)
		return code
	}
	locks := func() int { return len(s.set(s.keys.Unique())) }

	// Ruby pushes, Go runs.
	first := ruby.unique(t, "Odd", "go", odd, executed)
	require.NotEmpty(t, first)
	require.Empty(t, ruby.unique(t, "Odd", "go", odd, executed))
	require.Equal(t, 3, goPush("go", append([]string{"Odd"}, oddWords...)...), "a duplicate, though its JSON is spelled otherwise")
	require.Len(t, s.list(s.keys.Queue("go")), 1)
	require.Equal(t, "2", s.text(s.keys.Refusals()))
	p := s.work("-q", "go", "--exec", "*=true")
	eventually(t, "Go to release the lock", func() bool {
		return locks() == 0 && s.do("EXISTS", s.keys.Working("go", p.identities()[0])) == int64(0)
	})
	waitTerm(t, p)
	require.NotEmpty(t, ruby.unique(t, "Odd", "go", odd, executed))
	ruby.ask(t, nil, "queue_clear", "go")
	require.Zero(t, locks())

	// Go pushes, Ruby runs.
	require.Zero(t, goPush("ruby", "Ran", "7"))
	require.Empty(t, ruby.unique(t, "Ran", "ruby", []any{7}, executed))
	startSidekiq(t, s, env)
	eventually(t, "Ruby to release the lock", func() bool { return locks() == 0 })
	require.Zero(t, goPush("ruby", "Ran", "7"))
	eventually(t, "Ruby to release the lock", func() bool { return locks() == 0 })

	// The run itself holds the lock, or has released it, and a duplicate that it refused leads to one more.
	gate := filepath.Join(t.TempDir(), "gate")
	rule := map[string]any{"until": "until_executed", "again": true}
	require.NotEmpty(t, ruby.unique(t, "Waits", "ruby", []any{gate}, rule))
	eventually(t, "it to run", func() bool { return ruby.stats(t).Enqueued == 0 })
	eventually(t, "its lock to say so", func() bool { return s.text(s.keys.Lock(s.set(s.keys.Unique())[0]))[0] == 's' })
	require.Empty(t, ruby.unique(t, "Waits", "ruby", []any{gate}, rule))
	require.Equal(t, 3, goPush("ruby", "Waits", `"`+gate+`"`))
	early := filepath.Join(t.TempDir(), "early")
	require.NotEmpty(t, ruby.unique(t, "Waits", "ruby", []any{early}, map[string]any{"until": "until_executing"}))
	eventually(t, "its start to release the lock", func() bool { return locks() == 1 })
	before := ruby.stats(t).Processed
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.NoError(t, os.WriteFile(early, nil, 0o600))
	eventually(t, "both, and the run for the duplicates", func() bool { return locks() == 0 && ruby.stats(t).Processed >= before+3 })

	// A job that dies in Ruby releases its lock.
	require.NotEmpty(t, ruby.unique(t, "Raises", "ruby", []any{}, executed))
	eventually(t, "it to die", func() bool { return len(ruby.entries(t, "dead")) == 1 && locks() == 0 })
}

// What Sidekiq's pages delete, clear or kill releases its lock; nothing else does.
func TestRubysPagesReleaseTheLocksOfWhatTheyDelete(t *testing.T) {
	t.Parallel()
	s, ruby, _ := newUniqueSite(t)
	rule := map[string]any{"until": "until_executing", "scheduled": true, "ttl": 60}
	push := func(n int, later bool) string {
		item := map[string]any{"class": "A", "queue": "q", "args": []any{n}, "belay_unique": rule}
		if later {
			item["at"] = seconds(time.Now()) + 3600
		}
		jid := ruby.push(t, item)
		require.NotEmpty(t, jid)
		require.Empty(t, ruby.push(t, item))
		return jid
	}
	locks := func() int { return len(s.set(s.keys.Unique())) }
	jids := []string{push(0, false), push(1, false), push(2, true), push(3, true), push(4, true)}
	require.Equal(t, 5, locks())
	ttl, _ := s.do("TTL", s.keys.Lock(s.set(s.keys.Unique())[4])).(int64)
	require.Greater(t, ttl, int64(3600), "the lock of a scheduled job lasts until the job can run")
	ruby.ask(t, nil, "queue_delete", "q", jids[0])
	require.Equal(t, 4, locks())
	ruby.ask(t, nil, "delete", "schedule", jids[2])
	require.Equal(t, 3, locks())
	ruby.ask(t, nil, "kill", "schedule", jids[3])
	require.Equal(t, 2, locks())
	ruby.ask(t, nil, "queue_clear", "q")
	require.Equal(t, 1, locks())
	require.NotEmpty(t, push(0, false), "the lock is free")
	ruby.ask(t, nil, "clear", "schedule")
	require.Equal(t, 1, locks(), "that of the job in the queue")
}

// belay.rb stores a job where Sidekiq's client would, and only if the client would: in its namespace, in the
// Redis of Client.via, and not in the test modes, inline, after a refusal, or for an ActiveJob.
func TestUniqueJobsAreStoredWhereSidekiqStoresJobs(t *testing.T) {
	t.Parallel()
	needSidekiq(t)
	const lock = "belay:lock:[0-9a-f]{32}"
	stored := func(prefix string) []string {
		return []string{prefix + lock, prefix + "belay:stat:duplicates", prefix + "belay:unique", prefix + "queue:once", prefix + "queues"}
	}
	for mode, want := range map[string]struct {
		found        string
		keys, others []string
	}{
		"plain":         {found: `{"pushed":[true,false,true],"bulk":1}`},
		"namespace":     {found: `{"pushed":[true,false]}`, keys: stored("ns:")},
		"testing first": {found: `{"pushed":[true,true],"size":2,"runs":[1,1,7]}`},
		"testing last":  {found: `{"pushed":[true,true],"size":2,"runs":[1,1,7]}`},
		"inline":        {found: `{"ran":true,"runs":[5]}`},
		"strict":        {found: `{"raised":["ArgumentError","ArgumentError"]}`},
		"active job":    {found: `{"raised":["ArgumentError"]}`},
		"via":           {found: `{"pushed":[true,false]}`, others: stored("")},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			file, err := filepath.Abs("../contrib/ruby/belay.rb")
			require.NoError(t, err)
			cmd := exec.Command("ruby", "-W0", filepath.Join("testdata", "unique_modes.rb"), mode)
			cmd.Env = append(os.Environ(), "BELAY_RB="+file, "REDIS_URL="+drivertest.Start(t).URL())
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			require.NoError(t, err)
			var found map[string]any
			require.NoError(t, json.Unmarshal(out, &found))
			for name, patterns := range map[string][]string{"keys": want.keys, "others": want.others} {
				keys, _ := found[name].([]any)
				require.Len(t, keys, len(patterns), "%s: %v", name, keys)
				for i, key := range keys {
					require.Regexp(t, "^"+patterns[i]+"$", key)
				}
				delete(found, name)
			}
			rest, err := json.Marshal(found)
			require.NoError(t, err)
			require.JSONEq(t, want.found, string(rest))
		})
	}
}
