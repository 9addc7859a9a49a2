package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
)

// A sharded is a client with the shards a, b and c on one Redis, each behind a proxy of its own.
type sharded struct {
	*testing.T
	client  *Client
	proxies []*faultproxy.Proxy
}

func newSharded(t *testing.T, open adapters.Opener) *sharded {
	t.Helper()
	cfg := Config{RepeatFor: -1}
	s := &sharded{T: t}
	base := drivertest.Prefix(t)
	for _, name := range []string{"a", "b", "c"} {
		proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
		s.proxies = append(s.proxies, proxy)
		cfg.Shards = append(cfg.Shards, Shard{Name: name, Driver: open(t, proxy.URL()), Prefix: base + name})
	}
	client, err := New(nil, cfg)
	require.NoError(t, err)
	client.linger = time.Hour
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s.client = client
	return s
}

func onShards(t *testing.T, keep func(s *sharded)) {
	t.Helper()
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		t.Helper()
		keep(newSharded(t, open))
	})
}

// do sends a command to a keyspace past its proxy.
func (s *sharded) do(words ...string) any {
	s.Helper()
	value, err := drivertest.Redis(s).Do(context.Background(), words...)
	require.NoError(s, err)
	return value
}

// waiting returns how many jobs wait in the queue of each shard.
func (s *sharded) waiting() map[string]int64 {
	counts := make(map[string]int64)
	for _, space := range s.client.Spaces() {
		counts[space.Name] = s.do("LLEN", space.Keys.Queue("default")).(int64)
	}
	return counts
}

func plainJob() RawJob { return RawJob{Class: "Plain"} }

func TestPlainPushesSpreadOverAllShards(t *testing.T) {
	onShards(t, func(s *sharded) {
		for range 9 {
			receipt, err := s.client.Push(s.Context(), plainJob())
			require.NoError(s, err)
			require.Equal(s, StatusQueued, receipt.Status)
			require.NotEmpty(s, receipt.Shard)
		}
		require.Equal(s, map[string]int64{"a": 3, "b": 3, "c": 3}, s.waiting())
		receipts, err := s.client.PushMany(s.Context(), func(yield func(RawJob) bool) {
			for range 3 * lua.MaxItems {
				if !yield(plainJob()) {
					return
				}
			}
		})
		require.NoError(s, err)
		require.Len(s, receipts, 3*lua.MaxItems)
		require.Equal(s, map[string]int64{"a": 3 + lua.MaxItems, "b": 3 + lua.MaxItems, "c": 3 + lua.MaxItems}, s.waiting(), "a slice for each in turn")
	})
}

func uniqueJob(n int) RawJob {
	return RawJob{Class: "Once", Args: []any{n}, Unique: &dedup.Rule{Until: dedup.UntilExecuted}}
}

// Bound jobs go to the same shard in every program, alone and in bulk, so that one lock refuses both.
func TestAnEqualJobIsRefusedWhereverItIsPushed(t *testing.T) {
	onShards(t, func(s *sharded) {
		shards := make(map[string]bool)
		var holders []string
		for n := range 20 {
			receipt, err := s.client.Push(s.Context(), uniqueJob(n))
			require.NoError(s, err)
			require.Equal(s, StatusQueued, receipt.Status)
			shards[receipt.Shard] = true
			holders = append(holders, receipt.JID)
		}
		require.Len(s, shards, 3)
		receipts, err := s.client.PushMany(s.Context(), func(yield func(RawJob) bool) {
			for n := range 40 {
				if !yield(uniqueJob(n)) {
					return
				}
			}
		})
		require.NoError(s, err)
		require.Len(s, receipts, 40)
		for n, receipt := range receipts {
			if n < 20 {
				require.Equal(s, StatusDuplicate, receipt.Status)
				require.Equal(s, holders[n], receipt.Holder, "receipts are in the order of the jobs")
			} else {
				require.Equal(s, StatusQueued, receipt.Status)
			}
		}
		waiting := s.waiting()
		require.EqualValues(s, 40, waiting["a"]+waiting["b"]+waiting["c"])
	})
}

// Two programs compute the shard of a limit alike from its gate.
func TestJobsOfOneGateAreOnOneShard(t *testing.T) {
	onShards(t, func(s *sharded) {
		shards := make(map[string]bool)
		for tenant := range 12 {
			gate := limit.Limit{Name: "tenants"}.Gate(fmt.Sprint(tenant)).Name
			want := s.client.spaces[s.client.place.of(gate)].name
			for range 3 {
				j := plainJob()
				j.LimitedBy(func(string) string { return gate })
				receipt, err := s.client.Push(s.Context(), j)
				require.NoError(s, err)
				require.Equal(s, want, receipt.Shard)
			}
			shards[want] = true
		}
		require.Len(s, shards, 3)
	})
}

func TestAJobWithTwoBoundKeysNeedsOneShard(t *testing.T) {
	onShards(t, func(s *sharded) {
		refused := 0
		for n := range 12 {
			j := uniqueJob(n)
			j.LimitedBy(func(string) string { return "one:gate" })
			_, err := s.client.Push(s.Context(), j)
			var invalid *InvalidError
			if errors.As(err, &invalid) {
				require.ErrorContains(s, err, "ShardKey")
				refused++
				j.ShardKey = "both"
				receipt, err := s.client.Push(s.Context(), j)
				require.NoError(s, err)
				require.Equal(s, s.client.spaces[s.client.place.of("both")].name, receipt.Shard)
			} else {
				require.NoError(s, err)
			}
		}
		require.NotZero(s, refused)
	})
}

func TestAnotherListOfShardsIsRefused(t *testing.T) {
	onShards(t, func(s *sharded) {
		require.NoError(s, s.client.Admit(s.Context()))
		cfg := s.client.Config()
		other := func(shards ...Shard) *Client {
			cfg.Shards = shards
			client, err := New(nil, cfg)
			require.NoError(s, err)
			return client // its drivers are those of s.client
		}
		a, b, c := cfg.Shards[0], cfg.Shards[1], cfg.Shards[2]
		require.NoError(s, other(c, a, b).Admit(s.Context()), "the order does not matter")

		fewer := other(a, b)
		require.ErrorIs(s, fewer.Admit(s.Context()), ErrShards)
		_, err := fewer.Push(s.Context(), plainJob())
		require.ErrorIs(s, err, ErrShards, "also where no program has compared them before the push")

		swapped := a
		swapped.Name, b.Name = b.Name, a.Name
		err = other(swapped, b, c).Admit(s.Context())
		require.ErrorIs(s, err, ErrShards)
		require.ErrorContains(s, err, "its keyspace is that of shard")
		require.Equal(s, map[string]int64{"a": 0, "b": 0, "c": 0}, s.waiting())
	})
}

// A shard that is away gets no plain jobs, and the pushes that it would have got succeed elsewhere.
func TestAShardThatIsAway(t *testing.T) {
	onShards(t, func(s *sharded) {
		s.proxies[1].Close()
		require.NoError(s, s.client.Admit(s.Context()), "the others can work")
		for range 30 {
			receipt, err := s.client.Push(s.Context(), plainJob())
			require.NoError(s, err)
			require.NotEqual(s, "b", receipt.Shard)
		}
		receipts, err := s.client.PushMany(s.Context(), func(yield func(RawJob) bool) {
			for range 2 * lua.MaxItems {
				if !yield(plainJob()) {
					return
				}
			}
		})
		require.NoError(s, err)
		for _, receipt := range receipts {
			require.Equal(s, StatusQueued, receipt.Status)
			require.NotEqual(s, "b", receipt.Shard)
		}
		waiting := s.waiting()
		require.Zero(s, waiting["b"])
		require.EqualValues(s, 30+2*lua.MaxItems, waiting["a"]+waiting["c"])

		failed := 0
		for n := range 20 {
			j := uniqueJob(n)
			receipt, err := s.client.Push(s.Context(), j)
			if at := s.client.spaces[s.client.place.of(s.digest(j))].name; at != "b" {
				require.NoError(s, err)
				require.Equal(s, at, receipt.Shard)
				continue
			}
			require.ErrorContains(s, err, "shard b")
			require.Equal(s, StatusNotPushed, receipt.Status)
			failed++
		}
		require.NotZero(s, failed)
	})
}

// A batch that the program gives no ID may be on any shard, so it is made on one that is not away.
func TestABatchIsMadeWhereAShardAnswers(t *testing.T) {
	onShards(t, func(s *sharded) {
		require.NoError(s, s.client.Admit(s.Context()))
		for _, shard := range s.client.spaces {
			shard.cfg.RepeatFor = time.Minute
		}
		for _, shard := range []string{"a", "b", "c"} { // so that no shard is asked for the versions of its workers
			_, err := s.client.NewBatch(s.Context(), BatchConfig{ID: shard + ".0"})
			require.NoError(s, err)
		}
		s.proxies[1].Close()
		begun := time.Now()
		for range 20 {
			b, err := s.client.NewBatch(s.Context(), BatchConfig{})
			require.NoError(s, err)
			require.NotEqual(s, "b", b.space.name)
			require.NoError(s, b.Seal(s.Context()))
		}
		require.Less(s, time.Since(begun), time.Minute/2, "no call was repeated where another shard would do")
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		_, err := s.client.NewBatch(ctx, BatchConfig{ID: "b.1"})
		require.ErrorContains(s, err, "b")
	})
}

// digest returns the digest of the lock of a job.
func (s *sharded) digest(j RawJob) string {
	var w writer
	j.setDefaults(&w)
	var d draft
	require.NoError(s, j.draft(&w, time.Time{}, &d))
	return d.lock.Digest
}

// A push whose reply was lost may be stored: sent to another shard, the job would be stored twice.
func TestAnUncertainPushIsSentToNoOtherShard(t *testing.T) {
	onShards(t, func(s *sharded) {
		for range 3 {
			_, err := s.client.Push(s.Context(), plainJob())
			require.NoError(s, err) // each has its connection
		}
		for _, proxy := range s.proxies {
			proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "LPUSH", Do: faultproxy.Close()})
		}
		receipt, err := s.client.Push(s.Context(), plainJob())
		require.ErrorIs(s, err, ErrUnknown)
		require.Equal(s, StatusUnknown, receipt.Status)
		sum := func() (sum int64) {
			for _, n := range s.waiting() {
				sum += n
			}
			return sum
		}
		require.EqualValues(s, 4, sum(), "it is stored once")

		receipts, err := s.client.PushMany(s.Context(), func(yield func(RawJob) bool) {
			for range 3 {
				if !yield(plainJob()) {
					return
				}
			}
		})
		require.ErrorIs(s, err, ErrUnknown)
		require.Len(s, receipts, 3)
		require.EqualValues(s, 7, sum())
	})
}

func TestABatchHasOneShard(t *testing.T) {
	onShards(t, func(s *sharded) {
		shards := make(map[string]bool)
		for range 40 { // so that each shard gets one
			b, err := s.client.NewBatch(s.Context(), BatchConfig{})
			require.NoError(s, err)
			shards[b.space.name] = true
			for range 3 {
				j := plainJob()
				j.Batch = b
				receipt, err := s.client.Push(s.Context(), j)
				require.NoError(s, err)
				require.Equal(s, b.space.name, receipt.Shard)
			}
			_, err = s.client.NewBatch(s.Context(), BatchConfig{Parent: new(Batch)})
			require.ErrorIs(s, err, errEmptyBatch)
			_, err = s.client.Push(s.Context(), RawJob{Class: "A", Batch: new(Batch)})
			require.ErrorIs(s, err, errEmptyBatch)
			nested, err := s.client.NewBatch(s.Context(), BatchConfig{Parent: b})
			require.NoError(s, err)
			require.Equal(s, b.space, nested.space)
			require.NoError(s, b.Seal(s.Context()))
			again, err := s.client.OpenBatch(s.Context(), b.ID())
			require.NoError(s, err)
			require.Equal(s, b.space, again.space, "its id says its shard")
			status, err := again.Status(s.Context())
			require.NoError(s, err)
			require.Equal(s, 5, status.Total)
		}
		require.Len(s, shards, 3)
	})
}

func TestPreparedJobsGoToTheirShards(t *testing.T) {
	onShards(t, func(s *sharded) {
		var jobs []Prepared
		for n := range 20 {
			j := plainJob()
			if n >= 10 {
				j = uniqueJob(n)
			}
			p, _, err := s.client.Prepare(s.Context(), j)
			require.NoError(s, err)
			jobs = append(jobs, p)
		}
		key := IdempotencyKey{Scope: "outbox", Number: 1, Mark: "m"}
		for range 2 {
			receipts, err := s.client.PushPrepared(s.Context(), key, jobs)
			require.NoError(s, err)
			home := s.client.spaces[s.client.place.of("outbox")].name
			for n, receipt := range receipts {
				want := home
				if n >= 10 {
					want = s.client.spaces[s.client.place.of(s.digest(uniqueJob(n)))].name
				}
				require.Equal(s, want, receipt.Shard)
			}
		}
		waiting := s.waiting()
		require.EqualValues(s, 20, waiting["a"]+waiting["b"]+waiting["c"], "once, however often")
		for _, space := range s.client.Spaces() {
			for _, payload := range s.do("LRANGE", space.Keys.Queue("default"), "0", "-1").([]any) {
				require.NotContains(s, payload, fieldShard)
			}
		}
	})
}

func TestAURLWithShards(t *testing.T) {
	t.Parallel()
	var prefixes []string
	connect := func(url string, options ...driver.Option) (driver.Client, error) {
		u, err := driver.ParseURL(url, options...)
		if err != nil {
			return nil, err
		}
		require.Equal(t, driver.KindCluster, u.Kind)
		return idle{}, nil
	}
	for app, want := range map[string]string{"": "belay", "shop": "shop", "{shop}": "shop"} {
		client, err := Open("redis+cluster://h1,h2?dial_timeout=1s&shards=3", Config{Prefix: app}, connect)
		require.NoError(t, err)
		prefixes = nil
		for _, space := range client.Spaces() {
			prefixes = append(prefixes, space.Prefix)
		}
		require.Equal(t, []string{"{" + want + ":0}", "{" + want + ":1}", "{" + want + ":2}"}, prefixes)
	}
	for _, wrong := range []string{"0", "-1", "many", "2&shards=3", "100000", ""} {
		_, err := Open("redis://h?shards="+wrong, Config{}, connect)
		require.ErrorContains(t, err, "shards", wrong)
	}
	_, err := Open("redis://h?shards=3", Config{Shards: Shards(3)}, connect)
	require.ErrorContains(t, err, "use one of them")
}

// idle is a driver that is never used.
type idle struct{ driver.Client }

// fragile is a driver that panics once it is armed.
type fragile struct {
	driver.Client
	armed atomic.Bool
}

func (b *fragile) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	if b.armed.Load() {
		panic("the driver broke")
	}
	return b.Client.Do(ctx, calls...)
}

// The caller of a bulk push can recover the panic of one shard's driver, as that of the only one.
func TestThePanicOfADriverReachesTheCaller(t *testing.T) {
	onShards(t, func(s *sharded) {
		armed := &fragile{Client: s.client.spaces[1].driver}
		s.client.spaces[1].driver = armed
		s.client.spaces[1].link.Client = armed
		require.NoError(s, s.client.Admit(s.Context()))
		armed.armed.Store(true)
		defer armed.armed.Store(false)
		for _, jobs := range []int{20, 2 * lua.MaxItems} { // one is sent by the caller, the other one beside it
			require.PanicsWithValue(s, "the driver broke", func() {
				_, _ = s.client.PushMany(s.Context(), func(yield func(RawJob) bool) {
					for n := range jobs {
						if !yield(uniqueJob(n)) {
							return
						}
					}
				})
			})
		}
	})
}

// limitedOn returns a job of a class that is limited, and whose gate is on this shard.
func (s *sharded) limitedOn(shard, class string) RawJob {
	s.Helper()
	for n := range 100 {
		gate := limit.Limit{Name: "tenants"}.Gate(fmt.Sprint(n)).Name
		if s.client.spaces[s.client.place.of(gate)].name == shard {
			j := RawJob{Class: class}
			j.LimitedBy(func(string) string { return gate })
			return j
		}
	}
	require.FailNow(s, "no gate is on the shard "+shard)
	return RawJob{}
}

// keyOn returns a ShardKey of this shard.
func (s *sharded) keyOn(shard string) string {
	s.Helper()
	for n := range 100 {
		if key := fmt.Sprint("key ", n); s.client.spaces[s.client.place.of(key)].name == shard {
			return key
		}
	}
	require.FailNow(s, "no key is on the shard "+shard)
	return ""
}

func TestAJobIsWhereItsNextJobsAreBound(t *testing.T) {
	onShards(t, func(s *sharded) {
		for _, shard := range []string{"a", "b", "c"} {
			next := s.limitedOn(shard, "Next")
			keyed := RawJob{Class: "Keyed", ShardKey: s.keyOn(shard)}
			moved := s.limitedOn("a", "Moved")
			moved.ShardKey = s.keyOn(shard)
			deep := RawJob{Class: "Between", Then: []RawJob{next}}
			for _, j := range []RawJob{
				{Class: "First", Then: []RawJob{plainJob(), next}},
				{Class: "First", Then: []RawJob{keyed}},
				{Class: "First", Then: []RawJob{moved}},
				{Class: "First", Then: []RawJob{deep}},
				{Class: "First", ShardKey: s.keyOn(shard), Then: []RawJob{next}},
			} {
				for range 3 {
					receipt, err := s.client.Push(s.Context(), j)
					require.NoError(s, err)
					require.Equal(s, shard, receipt.Shard)
				}
			}
		}
		last, limited := s.limitedOn("b", "Last"), s.limitedOn("a", "First")
		limited.Then = []RawJob{last}
		for _, j := range []RawJob{
			limited,
			{Class: "First", ShardKey: s.keyOn("a"), Then: []RawJob{last}},
			{Class: "First", Then: []RawJob{s.limitedOn("a", "Next"), {Class: "Between", Then: []RawJob{last}}}},
		} {
			_, err := s.client.Push(s.Context(), j)
			var invalid *InvalidError
			require.ErrorAs(s, err, &invalid)
			require.ErrorContains(s, err, "the limit of its next job Last")
			require.ErrorContains(s, err, `"a"`)
			require.ErrorContains(s, err, `"b"`)
		}
	})
}

func TestABatchIsWhereItsCallbacksAreBound(t *testing.T) {
	onShards(t, func(s *sharded) {
		for _, shard := range []string{"a", "b", "c"} {
			for _, cfg := range []BatchConfig{
				{OnSuccess: s.limitedOn(shard, "Success")},
				{OnComplete: RawJob{Class: "Complete", ShardKey: s.keyOn(shard)}},
				{OnDeath: RawJob{Class: "Death", Then: []RawJob{s.limitedOn(shard, "Next")}}, OnSuccess: plainJob()},
				{OnSuccess: s.limitedOn(shard, "Success"), OnDeath: s.limitedOn(shard, "Death"), ID: shard + ".1"},
			} {
				b, err := s.client.NewBatch(s.Context(), cfg)
				require.NoError(s, err)
				require.Equal(s, shard, b.space.name)
			}
		}
		parent, err := s.client.NewBatch(s.Context(), BatchConfig{ID: "b.2"})
		require.NoError(s, err)
		for _, cfg := range []BatchConfig{
			{OnSuccess: s.limitedOn("a", "Success"), OnDeath: s.limitedOn("b", "Death")},
			{OnSuccess: s.limitedOn("a", "Success"), ID: "b.3"},
			{OnSuccess: s.limitedOn("a", "Success"), Parent: parent},
			{OnSuccess: RawJob{Class: "Success", ShardKey: s.keyOn("a")}, ID: "b.4"},
		} {
			_, err := s.client.NewBatch(s.Context(), cfg)
			var invalid *InvalidError
			require.ErrorAs(s, err, &invalid)
			require.ErrorContains(s, err, `"a"`)
			require.ErrorContains(s, err, `"b"`)
		}
	})
}

func TestAPeriodicJobIsRefusedWhereItsLimitIsNot(t *testing.T) {
	onShards(t, func(s *sharded) {
		home := s.client.Spaces()[s.client.Home()].Name
		for _, shard := range []string{"a", "b", "c"} {
			for _, j := range []RawJob{s.limitedOn(shard, "Tick"), {Class: "Tick", ShardKey: s.keyOn(shard)}} {
				_, err := s.client.SetPeriodic(s.Context(), Periodic{Name: "nightly", Cron: "@daily", Job: j})
				if shard == home {
					require.NoError(s, err)
					continue
				}
				require.ErrorContains(s, err, fmt.Sprintf("is on shard %q", shard))
				require.ErrorContains(s, err, "enqueue the job from the handler of a periodic one")
			}
		}
		_, err := s.client.SetPeriodic(s.Context(), Periodic{Name: "plain", Cron: "@daily", Job: plainJob()})
		require.NoError(s, err)
	})
}
