package integration

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/lua"
)

// askedShards is BELAY_SHARDS: over how many shards of its Redis a fleet works; fewer than two, and without it 0,
// for one keyspace.
func askedShards(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BELAY_SHARDS")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "BELAY_SHARDS")
	return n
}

// overShards makes the programs of a site work over so many shards, and returns their keyspaces: that of the site
// without shards.
func overShards(s *site, shards int) []*site {
	if shards < 2 {
		return []*site{s}
	}
	of := shardsOf(s, shards)
	s.url += shardsIn(of)
	var prefixes []string
	for _, one := range of {
		prefixes = append(prefixes, one.prefix)
	}
	s.users = newUsers(s.t, check.Config{Shards: prefixes}, s.server)
	return of
}

// shardsIn is what a URL says of keyspaces that are shards.
func shardsIn(of []*site) string {
	if len(of) == 1 {
		return ""
	}
	return "?shards=" + strconv.Itoa(len(of))
}

// waitingIn is site.waiting of all keyspaces.
func waitingIn(of []*site) (jobs int) {
	for _, s := range of {
		jobs += s.waiting()
	}
	return jobs
}

// shardsOf are the keyspaces of a site whose programs have so many shards.
func shardsOf(s *site, shards int) []*site {
	var of []*site
	for _, shard := range client.Shards(shards) {
		one := s.by(s.url)
		one.prefix = shard.PrefixIn(s.prefix)
		one.keys = lua.NewKeys(one.prefix)
		of = append(of, one)
	}
	return of
}

// A worker with three shards has jobs of each in hand when it is killed. With a free processor elsewhere all of them
// run again within three seconds of the kill, on whichever shard they are: the missing subscription of its session
// is found on each. A machine that is busy with other tests may find some by their TTL, within the bound for that.
func TestAKilledWorkersJobsRunAgainOnEachShard(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		shards, book := overShards(s, 3), newLedger(t)
		others := []*process{
			s.work("-q", "other", "-q", "default", "-c", "10", "--exec", book.exec("Short")),
			s.work("-q", "other", "-q", "default", "-c", "10", "--exec", book.exec("Short")),
		}
		victim := s.work("-q", "lonely", "-q", "default", "-c", "20", "--exec", book.exec("Lonely"))
		victim.awaitWorking(len(shards))
		jids := make(map[string]*site)
		for _, shard := range shards {
			eventually(t, "a watcher and a deputy", func() bool {
				return shard.text(shard.keys.Watcher()) != "" && shard.text(shard.keys.Deputy()) != ""
			})
			for n := range 3 {
				jid := shard.push("Lonely", "lonely", jsonArgs(n, 600_000))
				jids[jid] = shard
				book.awaitStart(jid, 1)
			}
		}
		identities := victim.identities()
		require.Len(t, identities, len(shards), "a session in each shard")
		time.Sleep(4 * time.Second) // what a sight must have seen is not shown anywhere
		others = append(others, s.start("-q", "lonely", "-c", "20", "--exec", book.exec("Lonely", "-for", "1ms")))
		others[2].awaitWorking(len(shards))

		killedAt := time.Now()
		victim.kill()
		for jid, shard := range jids {
			took := book.awaitStart(jid, 2).At.Sub(killedAt)
			byAbsence := false
			for _, identity := range identities {
				_, here := shard.diedAt(identity)
				byAbsence = byAbsence || here && declaredAbsent(others, identity)
			}
			t.Logf("a job of %s ran again after %v, its process was found by its absence: %v", shard.prefix, took, byAbsence)
			bound := recovery
			if takesItsTime() {
				bound = 3 * time.Second
			}
			require.Less(t, took, bound, shard.prefix)
		}
		eventually(t, "the jobs to end", func() bool { return waitingIn(shards) == 0 })
		for _, shard := range shards {
			dead := 0
			for _, identity := range identities {
				if _, here := shard.diedAt(identity); here {
					dead++
				}
			}
			require.Equal(t, 1, dead, "sessions of the victim that were declared dead in %s", shard.prefix)
		}
	}, oracle.OneFleet())
}

// awaitWorking waits until the worker has a session in so many shards.
func (p *process) awaitWorking(shards int) {
	p.t.Helper()
	eventually(p.t, "a session in each shard", func() bool { return strings.Count(p.log(), `"message":"working"`) == shards })
}
