package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// apartOf is clientOf by a proxy, but for what listens.
func (s *site) apartOf(role check.Role, proxy string) *belay.Client {
	s.t.Helper()
	c, err := belay.NewClient(apart{s.by(proxy).driverOf(role), s.driverOf(role)}, &belay.ClientConfig{Prefix: s.prefix})
	require.NoError(s.t, err)
	return c
}

// An apart listens past the proxy by which its calls go: a proxy knows no replies without a call.
type apart struct {
	driver.Client
	past driver.Client
}

func (a apart) Listen(ctx context.Context, channels []string, probe time.Duration, subscribed func(), received func(string)) error {
	return a.past.Listen(ctx, channels, probe, subscribed, received)
}

// commands is how many commands Redis has executed, those of scripts included, and how many of one name.
func (s *site) commands(name string) (all, named int) {
	s.t.Helper()
	for _, found := range callsOf.FindAllStringSubmatch(s.do("INFO", "commandstats").(string), -1) {
		n, err := strconv.Atoi(found[2])
		require.NoError(s.t, err)
		if all += n; found[1] == name {
			named = n
		}
	}
	return all, named
}

var callsOf = regexp.MustCompile(`cmdstat_(\S+):calls=(\d+)`)

type numbered struct{ N int }

// A hundred callers in four programs wait for the results of jobs that fifty workers run. While the jobs take
// their time, the programs send Redis next to nothing; when the jobs end, each result is read about once.
func TestWaitersCostRedisLittle(t *testing.T) {
	t.Parallel()
	const jobs, workers, programs = 100, 50, 4
	s := ordinarySite(t)
	class := belay.DefineResult[numbered, numbered]("Square", belay.Track(time.Hour))
	loads := belay.DefineResult[numbered, numbered]("Loads", belay.Track(time.Hour))
	release := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range workers {
		server, err := belay.NewServer(s.clientOf(check.RoleWorker), belay.ServerConfig{Concurrency: 1})
		require.NoError(t, err)
		class.Handle(server, func(ctx context.Context, n numbered) (numbered, error) {
			belay.Progress(ctx, int64(n.N), jobs)
			<-release
			return numbered{n.N * n.N}, nil
		})
		loads.Handle(server, func(_ context.Context, n numbered) (numbered, error) { return n, nil })
		running.Go(func() { _ = server.Run(ctx) })
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	pusher := s.clientOf(check.RoleProducer)
	// A result is announced once more behind a script that Redis had to load: this job has them loaded.
	receipt, err := loads.Enqueue(ctx, pusher, numbered{})
	require.NoError(t, err)
	_, err = loads.Wait(ctx, pusher, receipt.JID)
	require.NoError(t, err)
	jids := make([]string, jobs)
	for n := range jobs {
		receipt, err := class.Enqueue(ctx, pusher, numbered{n})
		require.NoError(t, err)
		jids[n] = receipt.JID
	}
	eventually(t, "all workers to have a job", func() bool { return s.do("LLEN", s.keys.Queue("default")) == int64(jobs-workers) })
	time.Sleep(2 * time.Second) // their progress is written
	rate := func(over time.Duration) float64 {
		before, _ := s.commands("")
		time.Sleep(over)
		after, _ := s.commands("")
		return float64(after-before) / over.Seconds()
	}
	alone := rate(5 * time.Second)
	_, subscribedBefore := s.commands("subscribe") // the workers, to be woken when the poller leaves

	var proxies []*faultproxy.Proxy
	sent := func() (all, reads int) {
		for _, proxy := range proxies {
			for name, n := range proxy.Counts() {
				if all += n; name == "HMGET" {
					reads += n
				}
			}
		}
		return all, reads
	}
	var waiting sync.WaitGroup
	for p := range programs {
		proxy := faultproxy.New(t, s.server.Addr())
		proxies = append(proxies, proxy)
		c := s.apartOf(check.RoleProducer, proxy.URL())
		for n := p; n < jobs; n += programs {
			waiting.Go(func() {
				result, err := class.Wait(ctx, c, jids[n])
				if err != nil || result.N != n*n {
					t.Errorf("the result of %d is %d: %v", n, result.N, err)
				}
			})
		}
	}
	time.Sleep(2 * time.Second)
	const span = 20 * time.Second
	before, _ := sent()
	together := rate(span)
	after, _ := sent()
	perSecond := float64(after-before) / span.Seconds()
	t.Logf("while they wait, %d callers in %d programs send %.1f commands a second beside their PINGs; Redis executes %.0f a second, and %.0f without them",
		jobs, programs, perSecond, together, alone)
	require.Less(t, perSecond, 1.5*jobs/10.0, "each job is read every ten seconds")
	_, subscribed := s.commands("subscribe")
	require.Equal(t, programs, subscribed-subscribedBefore, "one subscription for all callers of a program")

	_, published := s.commands("publish")
	_, readBefore := sent()
	close(release)
	waiting.Wait()
	_, readAfter := sent()
	_, nowPublished := s.commands("publish")
	t.Logf("the ends of %d jobs took %d PUBLISH and %d reads", jobs, nowPublished-published, readAfter-readBefore)
	require.LessOrEqual(t, nowPublished-published, jobs)
	require.LessOrEqual(t, readAfter-readBefore, 2*jobs)
	_, nowSubscribed := s.commands("subscribe")
	require.Equal(t, subscribed, nowSubscribed)
}

// Workers are killed while callers wait for the results of their jobs. Each caller gets the result of its job,
// or learns that it is dead.
func TestResultsOfJobsWhoseWorkersDie(t *testing.T) {
	t.Parallel()
	const jobs = 100
	eachClient(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		path, c := buildWorker(t, "./testdata/worker"), s.clientOf(check.RoleProducer)
		start := func() *process { return s.launch(path, "-redis", s.url, "-prefix", s.prefix, "-c", "10", book.path) }
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var waiting sync.WaitGroup
		for n := range jobs {
			job := client.RawJob{Class: "Any", ArgsJSON: fmt.Sprintf("[%d,%d]", n, 200+rand.IntN(800)), Track: time.Hour}
			receipt, err := c.Push(ctx, job)
			require.NoError(t, err)
			waiting.Go(func() {
				tracked, err := c.Wait(ctx, receipt.JID)
				want, _ := json.Marshal(receipt.JID)
				if err != nil || string(tracked.Result) != string(want) {
					t.Errorf("the result of %s is %s: %v", receipt.JID, tracked.Result, err)
				}
			})
		}
		fleet := []*process{start(), start(), start()}
		for n := range 6 {
			time.Sleep(time.Duration(300+rand.IntN(700)) * time.Millisecond) // between two faults
			fleet[n%3].kill()
			fleet[n%3] = start()
		}
		waiting.Wait()
		starts := len(book.starts(""))
		t.Logf("%d jobs began %d times", jobs, starts)
		require.Greater(t, starts, jobs, "no worker was killed while it ran a job")
	}, oracle.MaxInterruptions(programCrashes))
}
