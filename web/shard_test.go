package web

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
)

// sharded returns a rig whose dashboard shows the shards a and b on servers of their own. The rig's is a.
func sharded(t *testing.T, cfg Config) (r *rig, b *drivertest.Server) {
	t.Helper()
	r = &rig{T: t, redis: drivertest.Start(t), log: &drivertest.Buffer{}}
	b = drivertest.Start(t)
	cfg.Logger = slog.New(slog.NewJSONHandler(r.log, nil))
	c, err := client.Open(r.redis.URL(), client.Config{Shards: []client.Shard{{Name: "a", URL: r.redis.URL()}, {Name: "b", URL: b.URL()}}},
		func(url string, options ...driver.Option) (driver.Client, error) {
			return goredisdriver.Open(url, options...)
		})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	r.dash, err = New(c, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.dash.Close()) })
	for _, dash := range append(r.dash.shards, r.dash) {
		dash.stepTime, dash.searchTime, dash.patientTime = slow, slow, slow
	}
	for n, server := range []*drivertest.Server{r.redis, b} {
		shard := string("ab"[n])
		for _, words := range [][]string{
			{"SET", "stat:processed", []string{"10", "11"}[n]}, {"SET", "stat:processed:" + someDay(), []string{"5", "8"}[n]},
			{"SADD", "queues", "mail", "only-" + shard},
			{"LPUSH", "queue:only-" + shard, payload("jid-"+shard, "Report")},
		} {
			_, err := server.Do(context.Background(), words...)
			require.NoError(t, err)
		}
	}
	return r, b
}

// someDay is a day in the plot of days, far from its ends.
func someDay() string { return time.Now().UTC().AddDate(0, 0, -historyDays/2).Format(time.DateOnly) }

func TestTheOverviewSumsTheShardsAndPagesAreAboutOne(t *testing.T) {
	t.Parallel()
	r, _ := sharded(t, Config{})
	all := r.get("/")
	require.Equal(t, http.StatusOK, all.status, all.body)
	require.Contains(t, all.body, "<dt>Processed</dt><dd>21</dd>")
	require.Contains(t, r.get("/?range=days").body, "<td>"+someDay()+`</td><td class="num" data-label="Processed">13</td>`)
	for _, link := range []string{`href="./" aria-current="true">All shards`, `href="shard=a/">a<`, `href="shard=b/">b<`} {
		require.Contains(t, all.body, link)
	}
	for _, shard := range []string{"a", "b"} {
		other := map[string]string{"a": "b", "b": "a"}[shard]
		page := r.get("/shard=" + shard + "/queues?sort=size")
		require.Equal(t, http.StatusOK, page.status, page.body)
		require.Contains(t, page.body, "queue?name=only-"+shard)
		require.NotContains(t, page.body, "only-"+other)
		require.Contains(t, page.body, `action="../job"`, "a job is searched in all shards")
		require.Contains(t, page.body, `href="../shard=`+shard+`/queues?sort=size" aria-current="true"`)
		require.Contains(t, page.body, `href="../shard=`+other+`/queues?sort=size">`)
		require.Equal(t, http.StatusOK, r.get("/shard="+shard+"/series.json").status)
	}
	require.Equal(t, "shard=a/queues?sort=size", r.get("/queues?sort=size").head.Get("Location"))
	require.Equal(t, "shard=b/job?jid=jid-b", r.get("/job?jid=jid-b").head.Get("Location"), "the shard that has the job")
	require.Equal(t, "shard=b/", r.get("/shard=b").head.Get("Location"))
	require.Equal(t, http.StatusNotFound, r.get("/shard=c/queues").status)
}

func TestAnActIsAboutTheChosenShard(t *testing.T) {
	t.Parallel()
	var permitted []string
	r, b := sharded(t, Config{Authorize: func(_ *http.Request, act Act) error {
		permitted = append(permitted, act.Name+" "+act.Shard)
		return nil
	}})
	require.Equal(t, http.StatusBadRequest, r.post("/queue", "name", "mail", "do", "pause").status, "no shard is chosen")
	act := r.post("/shard=b/queue", "name", "mail", "do", "pause")
	require.Equal(t, http.StatusSeeOther, act.status, act.body)
	require.Equal(t, "queue?name=mail", act.head.Get("Location"), "the answer is on a page of the shard")
	require.Equal(t, []string{"pause b"}, permitted)
	require.Contains(t, r.log.String(), `"act":"pause","shard":"b"`)
	paused, err := b.Do(context.Background(), "SISMEMBER", "paused", "mail")
	require.NoError(t, err)
	require.EqualValues(t, 1, paused)
	require.EqualValues(t, 0, r.do("SISMEMBER", "paused", "mail"))
}

func TestABatchIsFoundInItsShard(t *testing.T) {
	t.Parallel()
	r, b := sharded(t, Config{})
	redis, err := goredisdriver.Open(b.URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, redis.Close()) })
	keyspace, err := client.New(redis, client.Config{})
	require.NoError(t, err)
	_, err = keyspace.NewBatch(t.Context(), client.BatchConfig{ID: "import-42"})
	require.NoError(t, err)
	require.Equal(t, "shard=b/job?jid=import-42", r.get("/job?jid=import-42").head.Get("Location"))
	require.Equal(t, "batch?bid=import-42", r.get("/shard=b/job?jid=import-42").head.Get("Location"))
}

func TestAShardThatIsAwayIsAProblemAndTheOthersWork(t *testing.T) {
	t.Parallel()
	r, b := sharded(t, Config{})
	b.Kill()
	all := r.get("/")
	require.Equal(t, http.StatusOK, all.status, all.body)
	require.Contains(t, all.body, "<dt>Processed</dt><dd>10</dd>")
	require.Contains(t, all.body, `<span class="tag bad">away</span>`)
	require.Contains(t, all.body, `<li class="bad">shard b: `)
	require.Equal(t, http.StatusOK, r.get("/shard=a/queues").status)
	gone := r.get("/shard=b/queues")
	require.Equal(t, http.StatusServiceUnavailable, gone.status)
	require.Contains(t, gone.body, `href="../shard=a/queues"`, "the page of the error has the choice")
	require.Contains(t, gone.body, `href="queues"`, "its links stay in the shard")
	require.Contains(t, gone.body, `action="../job"`)
	require.Contains(t, r.get("/shard%3Db/queues").body, `href="queues"`)
	require.Contains(t, r.get("/shard=b/no/page").body, `href="../queues"`)
	require.Contains(t, r.get("/?range=days").body, "<td>"+someDay()+`</td><td class="num" data-label="Processed">5</td>`)
	require.Equal(t, "ok\n", r.get("/healthz").body, "the others can be read")
	require.Equal(t, "shard=a/job?jid=jid-a", r.get("/job?jid=jid-a").head.Get("Location"))
	lost := r.get("/job?jid=jid-b")
	require.Equal(t, http.StatusNotFound, lost.status)
	require.Contains(t, lost.body, "Job jid-b was not found, but not everything was searched: shard b: ")
	require.Contains(t, lost.body, `href="shard=b/job?jid=jid-b"`)

	r.redis.Kill()
	r.dash.stale()
	none := r.get("/")
	require.Equal(t, http.StatusServiceUnavailable, none.status)
	require.Contains(t, none.body, "shard a: ")
	require.Contains(t, none.body, "\nshard b: ", "each on a line of its own")
	require.NotContains(t, none.body, `class="esc"`)
}

// hurried answers no call before its context ends, and records the time that the first call had.
type hurried struct {
	driver.Client
	had chan time.Duration
}

func (h hurried) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	if deadline, bounded := ctx.Deadline(); bounded {
		select {
		case h.had <- time.Until(deadline):
		default:
		}
	}
	<-ctx.Done()
	replies := make([]driver.Reply, len(calls))
	for n := range replies {
		replies[n].Err = ctx.Err()
	}
	return replies
}

func TestTheSearchForTheShardOfAJobIsBounded(t *testing.T) {
	t.Parallel()
	r, _ := sharded(t, Config{})
	r.dash.patientTime = 100 * time.Millisecond
	redis := hurried{had: make(chan time.Duration, 1)}
	r.dash.fleet = r.dash.fleet.With(func(i *inspect.Inspector) *inspect.Inspector { return i.WithDriver(redis) })
	page := r.get("/job?jid=jid-b")
	require.Equal(t, http.StatusNotFound, page.status)
	require.Contains(t, page.body, "Choose a shard to search all of it.")
	require.LessOrEqual(t, <-redis.had, r.dash.patientTime)
}

func TestTheLinksToAnotherShardHaveNothingOfThisOne(t *testing.T) {
	t.Parallel()
	r, _ := sharded(t, Config{})
	page := r.get("/shard=a/confirm?in=dead&do=delete&all=1&class=A&counted=7&looked=7&after=x&cursor=x&ref=x")
	require.Contains(t, page.body, `href="../shard=b/confirm?all=1&amp;class=A&amp;do=delete&amp;in=dead">`)
}

func TestASumWithoutAShardIsNoSample(t *testing.T) {
	t.Parallel()
	r, _ := sharded(t, Config{})
	at := time.Now()
	record := func(problemOfB string) {
		at = at.Add(time.Hour)
		status := inspect.FleetStatus{Status: inspect.Status{At: at}, Shards: []inspect.ShardStatus{
			{Name: "a", Status: inspect.Status{At: at}}, {Name: "b", Status: inspect.Status{At: at}, Problem: problemOfB}}}
		r.dash.record(status) // nothing else uses the dashboard
	}
	record("")
	record("it is away")
	require.Len(t, r.dash.recorder.recent.samples, 1)
	require.Len(t, r.dash.shards[0].recorder.recent.samples, 2, "its own plot has no gap")
	require.Len(t, r.dash.shards[1].recorder.recent.samples, 1)
	record("")
	require.Len(t, r.dash.recorder.recent.samples, 2)
}
