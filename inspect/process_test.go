package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// ruby64 is a process hash and a work entry as Sidekiq 6.4.1 writes them.
const (
	ruby64Info = `{"hostname":"vm","started_at":1795240473.9816105,"pid":2868,"tag":"app","concurrency":2,` +
		`"queues":["default","low"],"labels":["blue"],"identity":"vm:2868:027bfa1a8c5c"}`
	ruby64Work = `{"queue":"low","payload":"{\"retry\":true,\"queue\":\"low\",\"args\":[1],\"class\":\"HardJob\",` +
		`\"jid\":\"81a3bda6f6b71c4e32642ff8\"}","run_at":1795240473}`
	ruby81Info = `{"hostname":"vm","started_at":1795240473.5,"pid":7,"tag":"","labels":[],"version":"8.1.7","identity":"vm:7:aa",` +
		`"capsules":{"default":{"concurrency":5,"mode":"strict","weights":{"mail":0,"default":0}}}}`
)

func TestProcesses(t *testing.T) {
	promises(t, map[string]func(w *world){
		"Sidekiq 6.4's are shown with what they run": func(w *world) {
			const identity = "vm:2868:027bfa1a8c5c"
			w.do("SADD", w.keys.Processes(), identity)
			w.do("HSET", w.keys.Process(identity), "info", ruby64Info, "busy", "1", "quiet", "true", "rss", "30532", "rtt_us", "39",
				"beat", fmt.Sprintf("%d.5", time.Now().Unix()-3))
			w.do("HSET", w.keys.Workers(identity), "2y0", ruby64Work)
			status := w.status()
			require.Empty(w, status.Problems)
			require.Len(w, status.Processes, 1)
			got := status.Processes[0]
			require.GreaterOrEqual(w, got.BeatAge.Seconds(), 2.0)
			require.Less(w, got.BeatAge.Seconds(), 60.0)
			require.Len(w, got.Running, 1)
			require.Equal(w, Run{Thread: "2y0", Class: "HardJob", JID: "81a3bda6f6b71c4e32642ff8", Queue: "low",
				Since: time.Unix(1795240473, 0).UTC(), Args: "[1]", Elapsed: got.Running[0].Elapsed}, got.Running[0])
			require.Empty(w, got.Capsules)
			got.BeatAge, got.Running, got.Capsules = nil, nil, nil
			require.Equal(w, Process{Identity: identity, State: StateAlive, Hostname: "vm", PID: 2868, Tag: "app", Labels: []string{"blue"},
				Queues: []string{"default", "low"}, Concurrency: 2, Busy: 1, Quiet: true, RSS: 30532,
				StartedAt: time.UnixMicro(1795240473981611).UTC()}, got)
		},
		"a run whose handler ignores its end is shown as overdue": func(w *world) {
			w.do("SADD", w.keys.Processes(), "vm:7:aa")
			w.do("HSET", w.keys.Process("vm:7:aa"), "info", ruby81Info, "busy", "1")
			w.do("HSET", w.keys.Work("vm:7:aa"), "p1", `{"queue":"q","run_at":1,"overdue":7.5,"payload":"{\"class\":\"A\",\"jid\":\"1\",\"args\":[]}"}`)
			status := w.status()
			require.Empty(w, status.Problems)
			require.Equal(w, 7500*time.Millisecond, status.Processes[0].Running[0].Overdue.Duration)
		},
		"their runs are shown with the beginning of what may be shown of their arguments": func(w *world) {
			w.do("SADD", w.keys.Processes(), "vm:7:aa")
			w.do("HSET", w.keys.Process("vm:7:aa"), "info", ruby81Info, "busy", "3")
			for n, job := range []string{
				`{"class":"Long","jid":"1","args":["` + strings.Repeat("é", 1<<18) + `"]}`, `{"class":"Card","jid":"2","args":["S3cr3t"]}`,
				`{"class":"Sealed","jid":"3","args":[7,"belay:enc:1:last:k1:c1phert3xt"],"encrypt":true}`,
			} {
				payload, err := json.Marshal(job)
				require.NoError(w, err)
				w.do("HSET", w.keys.Work("vm:7:aa"), fmt.Sprint("p", n), `{"queue":"q","run_at":1,"payload":`+string(payload)+`}`)
			}
			w.inspector = w.inspector.WithMask(MaskClasses("Card"))
			running := w.status().Processes[0].Running
			require.Len(w, running, 3)
			require.True(w, strings.HasPrefix(running[0].Args, `["éé`) && strings.HasSuffix(running[0].Args, "é…"), running[0].Args)
			require.LessOrEqual(w, len(running[0].Args), maxRunArgs+len("…"))
			require.Equal(w, []string{`["[masked]"]`, `[7,"[encrypted, key k1]"]`}, []string{running[1].Args, running[2].Args})
			text, err := json.Marshal(running)
			require.NoError(w, err)
			require.NotContains(w, string(text), "encrypted", "the JSON of a run is without arguments")
		},
		"Sidekiq 8.1's say their queues and concurrency elsewhere": func(w *world) {
			w.do("SADD", w.keys.Processes(), "vm:7:aa")
			w.do("HSET", w.keys.Process("vm:7:aa"), "info", ruby81Info, "busy", "0", "quiet", "false", "concurrency", "5")
			got := w.status().Processes[0]
			require.Equal(w, []string{"default", "mail"}, got.Queues)
			require.Equal(w, 5, got.Concurrency)
			require.Equal(w, []Capsule{{Name: "default", Concurrency: 5, Mode: "strict", Queues: []string{"default", "mail"},
				Weights: map[string]int{"mail": 0, "default": 0}}}, got.Capsules)
			require.Equal(w, "8.1.7", got.Version)
			require.Nil(w, got.BeatAge)
		},
		"one that is half written, or odd, does not hide the others": func(w *world) {
			w.do("SADD", w.keys.Processes(), "bare", "broken", "fine", "gone", "odd types", "string")
			w.do("HSET", w.keys.Process("bare"), "busy", "2")
			w.do("HSET", w.keys.Process("broken"), "info", "{")
			w.do("HSET", w.keys.Process("odd types"), "info", `{"hostname":"h","pid":"7","queues":"x","labels":null,"started_at":null,"capsules":{"c":{"weights":[]},"d":7}}`)
			w.do("SET", w.keys.Process("string"), "x")
			w.do("HSET", w.keys.Process("fine"), "info", ruby64Info, "busy", "2")
			w.do("HSET", w.keys.Work("fine"), "a", "no JSON", "b", ruby64Work, "c", `{"queue":"q","payload":{"class":"Old","jid":"1","args":[]}}`)
			status := w.status()
			require.Len(w, status.Processes, 6)
			states := map[string]State{}
			for _, p := range status.Processes {
				states[p.Identity] = p.State
			}
			require.Equal(w, map[string]State{"bare": StateAlive, "broken": StateAlive, "fine": StateAlive, "gone": StateGone,
				"odd types": StateAlive, "string": StateGone}, states)
			fine, odd := status.Processes[2], status.Processes[4]
			require.Equal(w, "h", odd.Hostname)
			require.Len(w, fine.Running, 3)
			require.Equal(w, []string{"", "Old", "HardJob"}, []string{fine.Running[0].Class, fine.Running[1].Class, fine.Running[2].Class})
			text, err := json.Marshal(status)
			require.NoError(w, err)
			require.NotRegexp(w, `"(labels|queues|capsules|processes|running|problems|weights)":null`, string(text))
			named := strings.Join(status.Problems, "\n")
			for _, who := range []string{"broken", "odd types", "string", "fine"} {
				require.Contains(w, named, who)
			}
		},
		"Belay's are alive or lapsed by Redis' clock, announced or not": func(w *world) {
			record := lua.Record{Queues: []string{"mail"}, Beat: time.Second, TTL: time.Minute, Concurrency: 9}
			for _, identity := range []string{"h:1:aa", "h:2:bb"} {
				_, err := w.keys.Register(identity, record).Do(w.Context(), w.driver)
				require.NoError(w, err)
			}
			w.do("ZADD", w.keys.Alive(), "1", "h:2:bb")
			w.do("HSET", w.keys.Process("h:1:aa"), "beat", "1")
			processes := w.status().Processes
			require.Less(w, processes[0].BeatAge.Seconds(), 60.0, "that of its lease: its process record is older")
			require.Len(w, processes, 2)
			for n, state := range []State{StateAlive, StateLapsed} {
				require.Equal(w, state, processes[n].State)
				require.True(w, processes[n].Belay)
				require.Equal(w, 9, processes[n].Concurrency)
				require.Equal(w, []string{"mail"}, processes[n].Queues)
			}
		},
		"what runs is listed by thread, oldest first, and not beyond the page": func(w *world) {
			for p := range 3 {
				identity := fmt.Sprintf("h:%d:aa", p)
				w.do("SADD", w.keys.Processes(), identity)
				words := []string{"HSET", w.keys.Work(identity)}
				for n := range 600 {
					words = append(words, fmt.Sprintf("p%03d", n), ruby64Work)
				}
				w.do(words...)
			}
			for p := range processesAtOnce {
				w.do("SADD", w.keys.Processes(), fmt.Sprintf("z%d", p))
				w.do("HSET", w.keys.Work(fmt.Sprintf("z%d", p)), "a", ruby64Work)
			}
			processes := w.status().Processes
			require.Equal(w, "p000", processes[0].Running[0].Thread)
			require.Len(w, processes[2].Running, 600)
			require.Empty(w, processes[len(processes)-1].Running)
		},
	})
}
