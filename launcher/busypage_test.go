package launcher_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// One entry that a version of Sidekiq cannot read breaks its Busy page for all processes. Each finds what it
// reads: up to 8.1.1 the concurrency in info, later in the hash; 7 the weights; 8 complete capsules. Times are
// seconds, also where those of payloads are milliseconds.
func TestTheBusyPageOfEverySidekiqReadsAProcess(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.Retry.Unit = job.Millis
		cfg.Capsules = []launcher.Capsule{{Name: "unsafe", Concurrency: 1, Queues: []fetch.Queue{{Name: "thumbs"}, {Name: "previews"}}}}
		l := r.build(cfg)
		r.start(l)
		field := func(name string) string {
			text, _ := r.do("HGET", r.keys.Process(l.Identity()), name).(string)
			return text
		}
		r.eventually("the process' entry", func() bool { return l.Identity() != "" && field("info") != "" })
		var info struct {
			Hostname, Identity, Tag, Version *string
			PID                              *int
			StartedAt                        json.RawMessage `json:"started_at"`
			Labels, Queues                   []string
			Concurrency                      json.Number
			Weights                          []map[string]*int
			Capsules                         map[string]struct {
				Concurrency *int
				Mode        string
				Weights     map[string]*int
			}
			Embedded *bool
		}
		require.NoError(t, json.Unmarshal([]byte(field("info")), &info), "a version is a text")
		for name, missing := range map[string]bool{
			"hostname": info.Hostname == nil, "identity": info.Identity == nil, "tag": info.Tag == nil, "version": info.Version == nil,
			"pid": info.PID == nil, "labels": info.Labels == nil, "queues": info.Queues == nil, "embedded": info.Embedded == nil,
		} {
			require.False(t, missing, "%s in %s", name, field("info"))
		}
		require.False(t, *info.Embedded, "it obeys the page's buttons")
		require.Equal(t, l.Identity(), *info.Identity, "as in the set of processes")
		require.Contains(t, texts(r.do("SMEMBERS", r.keys.Processes()).([]any)), *info.Identity)
		require.Equal(t, 2, strings.Count(*info.Identity, ":"))
		require.Regexp(t, `^\d{10}\.\d+$`, string(info.StartedAt))
		require.Regexp(t, `^\d{10}\.\d+$`, field("beat"))
		require.Equal(t, field("concurrency"), string(info.Concurrency))
		require.Len(t, info.Capsules, 2)
		require.Len(t, info.Weights, 2)
		for name, capsule := range info.Capsules {
			require.Positive(t, *capsule.Concurrency, name)
			require.Contains(t, []string{"strict", "weighted", "random"}, capsule.Mode, name)
			require.NotEmpty(t, capsule.Weights, name)
			for queue, weight := range capsule.Weights {
				require.NotNil(t, weight, "%s in %s", queue, name)
			}
		}
	})
}

// Signals that Belay does not know, such as those of another version's page, change nothing.
func TestSignalsOfPagesThatNoProcessKnows(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		w := r.start(l)
		r.eventually("an identity", func() bool { return l.Identity() != "" })
		for _, signal := range []string{"", "KILL", "nonsense", "\xff", "TTIN"} { // the last one is known
			r.do("LPUSH", r.keys.Signals(l.Identity()), signal)
		}
		r.eventually("the signals to be read", func() bool { return strings.Contains(r.log.String(), "TTIN") })
		require.EqualValues(t, 0, r.do("EXISTS", r.keys.Signals(l.Identity())))
		r.push("Unknown", "[]")
		r.eventually("another job to be taken", func() bool { return len(r.set(r.keys.Retry())) == 1 })
		require.Equal(t, "false", r.do("HGET", r.keys.Process(l.Identity()), "quiet"))
		w.Stop()
		w.wait(t)
	})
}
