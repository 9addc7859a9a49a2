package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/slowlink"
)

// A slow link is slow, never stuck. Workers reach Redis by links of 50 to 500 ms round trip and 10 to 100
// Mbit/s: a killed worker's jobs run again, due jobs are promoted, and a slow worker that lives gives way to a
// healthy one. The same holds where Redis closes connections whose replies are larger than 2 MB.
//
// Ordinarily each of the three is tried with a few links, drawn so that each value of each dimension occurs.
// The environment may say otherwise:
//
//	BELAY_SEED=7               draws the same links
//	BELAY_LINKS=all            tries all of them: give go test a -timeout of an hour
//	BELAY_LINKS=kill/250ms/    tries those whose name contains this
//
// Beside these, everything else that carries much is tried with one link, slower than any of theirs: see carryLinks.
//
// It runs alone, because its bounds are promises and a busy machine is slow by itself.
func TestSlowLinks(t *testing.T) {
	seed, err := chaosSeed()
	require.NoError(t, err)
	how := os.Getenv("BELAY_LINKS")
	trials := linkTrials(how, seed)
	require.NotEmpty(t, trials, "BELAY_LINKS=%s", how)
	t.Logf("BELAY_SEED=%d BELAY_LINKS=%s: %d links", seed, how, len(trials))
	for _, trial := range trials {
		t.Log(trial)
	}
	// Each waits most of the time. They are no parallel subtests, because these would be as few as there are
	// processors.
	together(linksAtOnce, func(n int) bool {
		if n < len(trials) {
			t.Run(trials[n].String(), func(t *testing.T) { linkPlays[trials[n].play](t, trials[n]) })
		}
		return n < len(trials)
	})
}

// linksAtOnce is how many links are tried at once. Two processors carry this many workers, servers and links
// without being busy; under the race detector the links cost most.
const linksAtOnce = 4

// A linkTrial is one play with one link.
type linkTrial struct {
	play    string
	speed   slowlink.Speed
	payload int // bytes of a job's argument
	beat    time.Duration
	narrow  bool // Redis closes connections whose replies exceed 2 MB
	client  string
}

func (l linkTrial) String() string { return strings.Join(l.values(), "/") }

// values are its value in each dimension.
func (l linkTrial) values() []string {
	limit := "any"
	if l.narrow {
		limit = "2mb"
	}
	return []string{l.play, l.speed.RoundTrip.String(), fmt.Sprintf("%dMbit", l.speed.BitsPerSecond/slowlink.Mbit),
		fmt.Sprintf("%dkB", l.payload/1000), "beat" + l.beat.String(), limit, l.client}
}

// linkTrials are those that BELAY_LINKS asks for.
func linkTrials(how string, seed uint64) []linkTrial {
	all := allLinks()
	var chosen []linkTrial
	switch how {
	case "all":
		chosen = slices.Concat(carryLinks(), all)
	case "":
		chosen = carryLinks()
		chance := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // chance, no secret
		chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, play := range []string{"due", "kill", "beside"} { // the longest first
			chosen = append(chosen, covering(play, all)...)
		}
	default:
		for _, trial := range slices.Concat(carryLinks(), all) {
			if strings.Contains(trial.String(), how) {
				chosen = append(chosen, trial)
			}
		}
	}
	return chosen
}

// allLinks are the whole matrix. The limit of 2 MB means nothing to jobs of 1 kB, and a link that a healthy
// worker is faster than has little bandwidth and much to carry.
func allLinks() []linkTrial {
	speeds := linkSpeeds(10, 40, 100)
	loads := []linkTrial{{payload: 1000}, {payload: 200_000}, {payload: 200_000, narrow: true}}
	return slices.Concat(linkMatrix("kill", speeds, loads), linkMatrix("due", speeds, loads), linkMatrix("beside", linkSpeeds(10), loads[1:]))
}

// linkSpeeds are all round trips with some bandwidths, in Mbit/s.
func linkSpeeds(bandwidths ...int64) []slowlink.Speed {
	var speeds []slowlink.Speed
	for _, ms := range []int{50, 100, 250, 500} {
		for _, bandwidth := range bandwidths {
			speeds = append(speeds, slowlink.Speed{RoundTrip: time.Duration(ms) * time.Millisecond, BitsPerSecond: bandwidth * slowlink.Mbit})
		}
	}
	return speeds
}

// linkMatrix combines speeds and loads with both heartbeats. The Redis clients take turns, for each load and
// each speed.
func linkMatrix(play string, speeds []slowlink.Speed, loads []linkTrial) []linkTrial {
	var trials []linkTrial
	for i, speed := range speeds {
		for j, load := range loads {
			for k, beat := range []time.Duration{1500 * time.Millisecond, 500 * time.Millisecond} {
				load.play, load.speed, load.beat, load.client = play, speed, beat, []string{"go-redis", "rueidis"}[(i+j+k)%2]
				trials = append(trials, load)
			}
		}
	}
	return trials
}

// covering chooses of one play's trials, in their order, until each value of each dimension has occurred; at
// each turn the one with the most values that have not.
func covering(play string, all []linkTrial) []linkTrial {
	var chosen []linkTrial
	seen := make(map[string]bool)
	for {
		best, most := linkTrial{}, 0
		for _, trial := range all {
			fresh := 0
			for _, value := range trial.values() {
				if !seen[value] {
					fresh++
				}
			}
			if trial.play == play && fresh > most {
				best, most = trial, fresh
			}
		}
		if most == 0 {
			return chosen
		}
		chosen = append(chosen, best)
		for _, value := range best.values() {
			seen[value] = true
		}
	}
}

// The sample leaves out no value of any dimension, and is small enough for every run.
func TestASampleOfLinksCoversEachDimension(t *testing.T) {
	t.Parallel()
	values := func(trials []linkTrial) map[string]bool {
		seen := make(map[string]bool)
		for _, trial := range trials {
			for _, value := range trial.values() {
				seen[value] = true
				seen[trial.play+" "+value] = true
			}
		}
		return seen
	}
	for seed := range uint64(50) {
		sample := linkTrials("", seed)
		require.Equal(t, values(slices.Concat(carryLinks(), allLinks())), values(sample), "seed %d", seed)
		require.LessOrEqual(t, len(sample), 15+len(carryLinks()))
		require.Equal(t, sample, linkTrials("", seed))
	}
}
