package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
)

// shardHouse is a house with three shards in one Redis.
type shardHouse struct {
	*house
	url string
}

func newShardHouse(t testing.TB) shardHouse {
	h := newHouse(t)
	return shardHouse{h, h.server.URL() + "?shards=3"}
}

func (h shardHouse) invoke(words string, more ...string) said {
	return invoke("", append(append(strings.Fields(words), more...), "--redis", h.url, "--prefix", h.prefix)...)
}

// must runs a command line that succeeds, and returns the lines that it prints.
func (h shardHouse) must(words string, more ...string) []string {
	h.t.Helper()
	answer := h.invoke(words, more...)
	require.Zero(h.t, answer.code, "%s: %s", words, answer.errs)
	return strings.Split(strings.TrimSuffix(answer.out, "\n"), "\n")
}

// key is the whole name of a key of a shard.
func (h shardHouse) key(shard int, name string) string {
	return fmt.Sprintf("{%s:%d}:%s", h.prefix, shard, name)
}

// objects returns the JSON that a command prints, by shards.
func (h shardHouse) objects(words string, more ...string) map[string][]map[string]any {
	h.t.Helper()
	all := make(map[string][]map[string]any)
	answer := h.invoke(words, append(more, "--json")...)
	lines := json.NewDecoder(strings.NewReader(answer.out))
	for lines.More() {
		var object map[string]any
		require.NoError(h.t, lines.Decode(&object), answer.errs)
		shard, _ := object["shard"].(string)
		all[shard] = append(all[shard], object)
	}
	return all
}

// absent runs a command that does not find an item, and says so once.
func (h shardHouse) absent(words, item string) {
	h.t.Helper()
	answer := h.invoke(words)
	require.Equal(h.t, exitAbsent, answer.code, "%s: %s", words, answer.errs)
	require.Contains(h.t, answer.errs, "not there, or not any more: "+item+"\n", words)
	require.NotContains(h.t, answer.errs, "shard ", words)
}

var threeShards = []string{"0", "1", "2"}

func TestCommandsWorkOnAllShards(t *testing.T) {
	t.Parallel()
	promises := map[string]func(h shardHouse){
		"queues": func(h shardHouse) {
			for n := range 3 {
				h.do("SADD", h.key(n, "queues"), "mail")
				h.do("LPUSH", h.key(n, "queue:mail"), deadJob("A", fmt.Sprint(n)))
			}
			lines := h.must("queues")
			require.Len(h.t, slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasPrefix(line, "SHARD  QUEUE  SIZE") }), 3)
			require.Equal(h.t, []string{"0  mail: paused", "1  mail: paused", "2  mail: paused"}, h.must("queues pause mail"))
			all := h.objects("queues")
			require.Equal(h.t, threeShards, slices.Sorted(maps.Keys(all)))
			for _, queues := range all {
				require.Len(h.t, queues, 1)
				require.Equal(h.t, true, queues[0]["paused"])
				require.EqualValues(h.t, 1, queues[0]["size"])
			}
			require.Len(h.t, h.objects("queues", "--shard", "1"), 1)
			require.Contains(h.t, h.objects("queues", "--shard", "1"), "", "one shard alone is as one keyspace")
			require.Equal(h.t, []string{"0  mail: resumed", "1  mail: resumed", "2  mail: resumed"}, h.must("queues resume mail"))
			require.Equal(h.t, []string{"0  1 moved", "1  1 moved", "2  1 moved"}, h.must("queues move mail other"))
			require.Len(h.t, h.objects("queues list other"), 3)
			require.Len(h.t, h.objects("find --class A"), 3)
			require.Contains(h.t, h.must("find --class A")[0], "SHARD")
			h.must("queues clear other --yes")
			require.Empty(h.t, h.objects("queues list other"))
		},
		"sets": func(h shardHouse) {
			for n := range 3 {
				for set, at := range map[string]int64{"retry": 1, "schedule": 1, "dead": 0} {
					h.do("ZADD", h.key(n, set), fmt.Sprint(time.Now().Unix()+at*3600), deadJob("A", fmt.Sprint(set, n)))
				}
			}
			require.Contains(h.t, h.must("dead")[0], "SHARD")
			require.Len(h.t, h.objects("list dead --group"), 3)
			require.Equal(h.t, []string{"0  0 retried", "1  1 retried", "2  0 retried"}, h.must("dead retry dead1"))
			h.absent("dead retry dead1", "dead1")
			answer := h.invoke("retries delete retry0 retry2 none")
			require.Equal(h.t, exitAbsent, answer.code)
			require.Contains(h.t, answer.errs, "not any more: none\n")
			require.Len(h.t, h.objects("retries"), 1)
			require.Len(h.t, h.objects("scheduled find schedule0 schedule2"), 2)
			h.absent("scheduled find nowhere", "nowhere")
			require.Equal(h.t, []string{"0  1 killed", "1  1 killed", "2  1 killed"}, h.must("scheduled kill --all --yes"))
			answer = h.invoke("dead clear")
			require.Equal(h.t, exitUsage, answer.code)
			require.Contains(h.t, answer.errs, "it would delete all 5 jobs in dead, in all 3 shards: give --yes")
			require.Equal(h.t, []string{"0  2 deleted", "1  1 deleted", "2  2 deleted"}, h.must("dead clear --yes"))
		},
		"locks": func(h shardHouse) {
			for n := range 6 {
				h.must("push A --key", fmt.Sprint("k", n))
			}
			var digests []string
			for shard, locks := range h.objects("locks") {
				require.Contains(h.t, threeShards, shard)
				for _, lock := range locks {
					digests = append(digests, lock["digest"].(string))
				}
			}
			require.Len(h.t, digests, 6)
			require.Len(h.t, h.objects("locks find --key k3"), 1)
			require.Len(h.t, h.must("locks release", digests...), 6)
			h.absent("locks release "+digests[0], digests[0])
			require.Equal(h.t, exitAbsent, h.invoke("locks find --key k3").code)
		},
		"limits": func(h shardHouse) {
			require.Equal(h.t, "1  webhooks: concurrency 5, rate - (no program has registered it)", h.must("limits set webhooks --concurrency 5")[1])
			require.Len(h.t, h.objects("limits"), 3)
			require.Len(h.t, h.objects("limits show webhooks"), 3)
			require.Len(h.t, h.objects("limits check"), 3)
			require.Len(h.t, h.must("limits remove webhooks"), 3)
			h.absent("limits remove webhooks", "webhooks")
			h.absent("limits show webhooks", "webhooks")
		},
		"class rules": func(h shardHouse) {
			require.Len(h.t, h.must("classes pause B"), 3)
			require.Len(h.t, h.objects("classes list"), 3)
			require.Len(h.t, h.objects("classes"), 3)
			require.Equal(h.t, []string{"0  B: resumed", "1  B: resumed", "2  B: resumed"}, h.must("classes resume B"))
			h.absent("classes resume B", "B")
			require.Contains(h.t, h.invoke("classes drop B").errs, "in all 3 shards: give --yes")
		},
		"a process gets a signal once": func(h shardHouse) {
			soon := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
			for n := range 3 {
				for _, process := range []string{"one", "two"} {
					if process == "two" && n == 0 {
						continue // it has no session there at the moment
					}
					identity := fmt.Sprintf("vm:%s:%d", process, n)
					h.do("SADD", h.key(n, "processes"), identity)
					h.do("ZADD", h.key(n, "alive"), soon, identity)
					h.do("HSET", h.key(n, identity), "busy", "0", "info", `{"hostname":"vm","process":"`+process+`","queues":["mail"]}`)
				}
				ruby := fmt.Sprint("ruby:", n)
				h.do("SADD", h.key(n, "processes"), ruby)
				h.do("HSET", h.key(n, ruby), "busy", "0", "info", `{"hostname":"vm","queues":["mail"]}`)
			}
			lines := h.must("processes dump --all --yes")
			slices.Sort(lines)
			require.Equal(h.t, []string{
				"0  ruby:0: dump sent", "0  vm:one:0: dump sent", "1  ruby:1: dump sent", "1  vm:two:1: dump sent", "2  ruby:2: dump sent",
			}, lines)
		},
		"batches": func(h shardHouse) {
			var ids []string
			for range 4 {
				ids = append(ids, h.must("batches new")...)
			}
			for _, id := range ids {
				shard, _, _ := strings.Cut(id, ".")
				require.Equal(h.t, id, h.objects("batches show " + id)[shard][0]["bid"])
				require.Equal(h.t, []string{shard + "  " + id + ": sealed"}, h.must("batches seal "+id))
			}
			count := 0
			for _, of := range h.objects("batches") {
				count += len(of)
			}
			require.Equal(h.t, 4, count)
			h.must("batches delete", ids...)
			h.absent("batches show "+ids[0], ids[0])
			h.absent("batches seal "+ids[0], ids[0])
		},
		"periodic jobs are in one": func(h shardHouse) {
			h.must("periodic add nightly @daily Report -q reports")
			require.Len(h.t, h.objects("periodic")[""], 1)
			h.must("periodic run nightly")
			require.Len(h.t, h.objects("periodic history nightly")[""], 1)
			require.Equal(h.t, []string{"nightly: paused"}, h.must("periodic pause nightly"))
			require.Empty(h.t, h.objects("periodic --shard 1"))
			require.Len(h.t, h.objects("periodic --shard 0"), 1)
			require.Equal(h.t, []string{"nightly: removed"}, h.must("periodic remove nightly"))
			require.Equal(h.t, exitAbsent, h.invoke("periodic run nightly").code)
		},
		"the rest": func(h shardHouse) {
			require.Len(h.t, h.objects("check"), 3)
			require.Regexp(h.t, `(?m)^2  ok    version `, h.invoke("check").out)
			h.do("SET", h.key(1, "stat:processed"), "7")
			require.Len(h.t, h.objects("status --history 2"), 3)
			require.Contains(h.t, h.must("status --history 2")[0], "SHARD  DAY")
			h.must("status reset --yes")
			require.Equal(h.t, "0", h.do("GET", h.key(1, "stat:processed")))
			require.Empty(h.t, h.objects("queues history"))
			require.Contains(h.t, h.must("queues history")[2], "2  0 samples")
			h.absent("processes quiet nobody", "nobody")
			h.must("__complete queues list")
			require.Equal(h.t, exitUsage, h.invoke("queues --shard 7").code)
		},
	}
	for name, promise := range promises {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			promise(newShardHouse(t))
		})
	}
}

// A shard that cannot be read is an error at the end, and the others are done.
func TestAShardThatFailsDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	h := shardHouse{&house{t, server, "p"}, server.URL() + "?shards=3"}
	h.must("push A --key k")
	for n := range 3 {
		h.do("ZADD", h.key(n, "dead"), fmt.Sprint(time.Now().Unix()), deadJob("A", fmt.Sprint("dead", n)))
	}
	h.do("ACL", "SETUSER", "two", "on", ">secret", "+@all", "~{p:0}:*", "~{p:2}:*")
	h.url = strings.Replace(h.url, "redis://", "redis://two:secret@", 1)
	for words, lines := range map[string][]string{
		"queues pause mail":       {"0  mail: paused", "2  mail: paused"},
		"dead":                    nil,
		"locks":                   nil,
		"classes pause B":         nil,
		"dead delete --all --yes": {"0  1 deleted", "1  0 deleted", "2  1 deleted"},
	} {
		answer := h.invoke(words)
		require.Equal(t, exitFailure, answer.code, "%s: %s", words, answer.out)
		require.Equal(t, 1, strings.Count(answer.errs, "shard 1: "), answer.errs)
		require.NotContains(t, answer.errs, "shard 0: ")
		require.Contains(t, answer.out, "2  ", words)
		for _, line := range lines {
			require.Contains(t, answer.out, line, words)
		}
	}
	answer := h.invoke("limits remove none")
	require.Equal(t, exitFailure, answer.code, "it may be in the shard that failed")
	require.Contains(t, answer.errs, "the other shards do not have none")
	require.EqualValues(t, 0, h.do("ZCARD", h.key(2, "dead")))
	require.EqualValues(t, 1, h.do("ZCARD", h.key(1, "dead")))
}

// The page of belay top acts on a queue in all shards, quiets a process by any of its sessions, and lists jobs of
// all shards.
func TestThePageShowsAllShards(t *testing.T) {
	t.Parallel()
	h := newShardHouse(t)
	for n := range 3 {
		for i := range 3 {
			h.do("ZADD", h.key(n, "dead"), fmt.Sprint(time.Now().Unix()+int64(i)), deadJob("A", fmt.Sprint(n, i)))
		}
	}
	h.do("SADD", h.key(2, "processes"), "vm:1")
	h.do("HSET", h.key(2, "vm:1"), "info", `{"queues":["mail"]}`, "busy", "0", "quiet", "false")
	at := redisFlags{url: h.url, client: "go-redis", prefix: h.prefix, set: pflag.NewFlagSet("", pflag.ContinueOnError)}
	require.NoError(t, withFleet(&at, func(_ *cobra.Command, fleet *inspect.Fleet, _ []string) error {
		page := topFleet{fleet}
		changed, err := page.Pause(t.Context(), "mail")
		require.NoError(t, err)
		require.True(t, changed)
		for n := range 3 {
			require.Equal(t, int64(1), h.do("SISMEMBER", h.key(n, "paused"), "mail"))
		}
		changed, err = page.Resume(t.Context(), "mail")
		require.NoError(t, err)
		require.True(t, changed)
		changed, err = page.Pause(t.Context(), "mail")
		require.NoError(t, err)
		require.True(t, changed)
		sent, err := page.Signal(t.Context(), "vm:1", inspect.Quiet)
		require.NoError(t, err)
		require.True(t, sent)
		sent, err = page.Signal(t.Context(), "vm:2", inspect.Quiet)
		require.NoError(t, err)
		require.False(t, sent)
		status, err := page.Status(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 9, status.Dead)
		first, err := firstJobs(t.Context(), page, inspect.Query{Places: []inspect.Place{inspect.PlaceDead}}, 6)
		require.NoError(t, err)
		var ids []string
		for _, entry := range first {
			ids = append(ids, entry.ID)
		}
		require.Equal(t, []string{"0 2", "1 2", "2 2", "0 1", "1 1", "2 1"}, ids, "the last of each shard")
		all, err := firstJobs(t.Context(), page, inspect.Query{Places: []inspect.Place{inspect.PlaceDead}}, 100)
		require.NoError(t, err)
		require.Len(t, all, 9)
		return nil
	})(&cobra.Command{}, nil))
}
