package belay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

type cardArgs struct {
	User   int
	Number string
}

const cardNumber = "4111-S3cr3t"

// testKeys returns keys with these IDs, the first one current. A key's bytes depend on its ID only.
func testKeys(t *testing.T, ids ...string) belay.Keys {
	t.Helper()
	var text string
	for _, id := range ids {
		text += fmt.Sprintf("%s:%064x\n", id, id)
	}
	keys, err := belay.ParseKeys(text)
	require.NoError(t, err)
	return keys
}

// everything returns what Redis holds below a prefix, as DUMP has it, which keeps short texts as they are.
func everything(t *testing.T, client *belay.Client) string {
	t.Helper()
	do := func(words ...string) any {
		reply := client.Driver().Do(t.Context(), driver.Command(words...))[0]
		require.NoError(t, reply.Err)
		return reply.Value
	}
	var all strings.Builder
	names, _ := do("KEYS", client.Config().Prefix+":*").([]any)
	for _, name := range names {
		key := name.(string)
		_, _ = fmt.Fprintf(&all, "%s ", key)
		switch do("TYPE", key) {
		case "list":
			_, _ = fmt.Fprintln(&all, do("LRANGE", key, "0", "-1"))
		case "zset":
			_, _ = fmt.Fprintln(&all, do("ZRANGE", key, "0", "-1", "WITHSCORES"))
		case "hash":
			_, _ = fmt.Fprintln(&all, do("HGETALL", key))
		case "string":
			_, _ = fmt.Fprintln(&all, do("GET", key))
		case "set":
			_, _ = fmt.Fprintln(&all, do("SMEMBERS", key))
		}
	}
	return all.String()
}

// Redis never has an encrypted argument, not while its job waits, runs, is retried or is dead.
func TestRedisNeverHasAnEncryptedArgument(t *testing.T) {
	t.Parallel()
	for name, encrypt := range map[string]func(belay.Keys) belay.DefineOption{"the last one": belay.Encrypted, "all of them": belay.EncryptedAll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapters.Each(t, func(t *testing.T, open adapters.Opener) {
				var log drivertest.Buffer
				prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
				client, err := belay.NewClient(open(t, drivertest.Redis(t).URL()), &belay.ClientConfig{Prefix: prefix})
				require.NoError(t, err)
				keys := testKeys(t, "k2", "k1")
				type seen struct {
					where string
					args  cardArgs
				}
				ran := make(chan seen, 10)
				charge := belay.Define[cardArgs]("Charge", encrypt(keys), belay.Retries(0), belay.Track(time.Hour),
					belay.AroundArgs(func(ctx context.Context, args cardArgs, _ *belay.Job, next func(context.Context) error) error {
						ran <- seen{"around", args}
						return next(ctx)
					}),
					belay.OnExhausted(func(_ context.Context, args cardArgs, _ *belay.Job, _ error) { ran <- seen{"exhausted", args} }))
				during := make(chan string, 1)
				server := newServer(t, client, belay.ServerConfig{LogArgs: true, Logger: slog.New(logbook.JSON(&log, slog.LevelDebug))})
				charge.Handle(server, func(_ context.Context, args cardArgs) error {
					ran <- seen{"handler", args}
					during <- everything(t, client)
					return errors.New("declined")
				})

				pushed := make(chan []any, 1)
				client.Use("note", func(_ context.Context, j *belay.RawJob) error { pushed <- j.Args; return nil })
				args := cardArgs{42, cardNumber}
				receipt, err := charge.Enqueue(t.Context(), client, args)
				require.NoError(t, err)
				require.Equal(t, []any{42, cardNumber}, <-pushed, "middleware of the client sees what is pushed")
				before := everything(t, client)
				require.Contains(t, before, receipt.JID)
				require.Contains(t, before, `"encrypt":true`)
				require.Contains(t, before, "belay:enc:1:")

				running(t, server)
				for _, where := range []string{"around", "handler", "exhausted"} {
					require.Equal(t, seen{where, args}, awaitValue(t, where, ran))
				}
				text := awaitValue(t, "the run", during)
				drivertest.Eventually(t, func() bool {
					return strings.Contains(everything(t, client), prefix+":dead ")
				}, patience, tick)
				after := everything(t, client)
				require.Contains(t, after, "declined")
				drivertest.Eventually(t, func() bool { return strings.Contains(log.String(), `"run"`) }, patience, tick)
				require.Contains(t, log.String(), "[encrypted, key k2]")
				for _, place := range []string{before, text, after, log.String()} {
					require.NotContains(t, place, "S3cr3t")
				}
			})
		})
	}
}

// A worker without the key loses nothing: the job waits for its retry, with an error that names the key, and
// runs when a worker has it.
func TestAJobWhoseKeyIsMissingIsRetried(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	define := func(keys belay.Keys) *belay.Definition[cardArgs] {
		return belay.Define[cardArgs]("Charge", belay.Encrypted(keys), belay.Backoff(func(int, error, *belay.Job) time.Duration { return time.Millisecond }))
	}
	_, err := define(testKeys(t, "new")).Enqueue(t.Context(), client, cardArgs{42, cardNumber})
	require.NoError(t, err)

	server := newServer(t, client, belay.ServerConfig{})
	define(testKeys(t, "old")).Handle(server, func(context.Context, cardArgs) error { return nil })
	failed := make(chan error, 100)
	server.OnError(func(_ context.Context, _ *belay.Job, err error) { failed <- err })
	running(t, server)
	failure := awaitValue(t, "the failed run", failed)
	unopened, ok := errors.AsType[*belay.DecryptError](failure)
	require.True(t, ok)
	require.Equal(t, "new", unopened.KeyID)
	require.EqualError(t, failure, "read the arguments of Charge: the arguments cannot be decrypted with the key new: it is not among this program's keys (old): add it")
	drivertest.Eventually(t, func() bool {
		return strings.Contains(everything(t, client), `"error_class":"belay.DecryptError"`)
	}, patience, tick)
	server.Stop()

	next := newServer(t, client, belay.ServerConfig{})
	ran := make(chan cardArgs, 1)
	define(testKeys(t, "old", "new")).Handle(next, func(_ context.Context, args cardArgs) error { ran <- args; return nil })
	running(t, next)
	require.Equal(t, cardArgs{42, cardNumber}, awaitValue(t, "the run with the key", ran))
}

// Two texts of the same arguments differ, so a lock of the texts would refuse nothing; and a plain digest of a
// short secret tells what it is.
func TestUniqueJobsAreComparedByTheirPlainArguments(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	define := func(class string, options ...belay.DefineOption) *belay.Definition[cardArgs] {
		return belay.Define[cardArgs](class, append(options, belay.Unique(belay.UntilExecuted))...)
	}
	push := func(d *belay.Definition[cardArgs], args cardArgs) belay.Receipt {
		receipt, err := d.Enqueue(t.Context(), client, args)
		require.NoError(t, err)
		return receipt
	}
	args := cardArgs{42, cardNumber}
	first := push(define("Charge", belay.Encrypted(testKeys(t, "2025"))), args)
	require.Equal(t, belay.StatusQueued, first.Status)
	for _, keys := range [][]string{{"2025"}, {"2025", "2026"}, {"2026", "2025"}} {
		second := push(define("Charge", belay.EncryptedAll(testKeys(t, keys...))), args)
		require.Equal(t, belay.StatusDuplicate, second.Status, keys)
		require.Equal(t, first.JID, second.Holder)
	}
	require.Equal(t, belay.StatusQueued, push(define("Charge", belay.Encrypted(testKeys(t, "2025"))), cardArgs{42, "another"}).Status)

	guess, err := dedup.Digest("Charge", "", []byte(`[42,"`+cardNumber+`"]`))
	require.NoError(t, err)
	require.NotContains(t, everything(t, client), guess, "a digest that anyone can compute tells a guess from the truth")
	byFields := belay.Define[cardArgs]("Fields", belay.Encrypted(testKeys(t, "2025")), belay.Unique(belay.UntilExecuted, belay.UniqueOpts{Fields: []string{"Number"}}))
	require.Equal(t, belay.StatusQueued, push(byFields, args).Status)
	require.Equal(t, belay.StatusDuplicate, push(byFields, cardArgs{43, cardNumber}).Status, "Fields are compared as they were")
}

// The worker that runs a job once more gives its arguments to a new jid, and has no key for that.
func TestTheExtraRunOfAnEncryptedJobOpens(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	charge := belay.Define[cardArgs]("Charge", belay.Encrypted(testKeys(t, "k")),
		belay.Unique(belay.UntilExecuted, belay.UniqueOpts{RescheduleOnce: true}))
	server := newServer(t, client, belay.ServerConfig{})
	type run struct {
		jid  string
		args cardArgs
	}
	ran, again := make(chan run, 2), make(chan error, 1)
	first := true
	charge.Handle(server, func(ctx context.Context, args cardArgs) error {
		if first {
			first = false
			_, err := charge.Enqueue(ctx, client, args)
			again <- err
		}
		info, _ := belay.Info(ctx)
		ran <- run{info.JID, args}
		return nil
	})
	running(t, server)
	_, err := charge.Enqueue(t.Context(), client, cardArgs{42, cardNumber})
	require.NoError(t, err)
	require.NoError(t, awaitValue(t, "the duplicate", again))
	one, two := awaitValue(t, "the run", ran), awaitValue(t, "the extra run", ran)
	require.NotEqual(t, one.jid, two.jid)
	require.Equal(t, one.args, two.args)
}

// The key of a limit is a part of names in Redis, which operators see. Of an encrypted class it is a digest
// that needs the keys, whether a worker computes it or a caller of Do.
func TestRedisNeverHasTheKeyOfALimitOfAnEncryptedClass(t *testing.T) {
	t.Parallel()
	client, keys := openShared(t), testKeys(t, "k")
	one := belay.Limit{Name: "cards", Concurrency: 1}
	charge := belay.Define[cardArgs]("Charge", belay.Limited(one, func(a cardArgs) string { return a.Number }), belay.EncryptedAll(keys))
	began, may := make(chan int, 3), make(chan bool)
	server := newServer(t, client, belay.ServerConfig{Concurrency: 5})
	charge.Handle(server, func(_ context.Context, args cardArgs) error {
		began <- args.User
		<-may
		return nil
	})
	for user, number := range []string{cardNumber, cardNumber, "4222-S3cr3t"} {
		_, err := charge.Enqueue(t.Context(), client, cardArgs{user, number})
		require.NoError(t, err)
	}
	running(t, server)
	t.Cleanup(func() { close(may) })
	require.ElementsMatch(t, []int{0, 2}, []int{awaitValue(t, "a run", began), awaitValue(t, "the run with another key", began)})
	drivertest.Eventually(t, func() bool { return strings.Contains(everything(t, client), ":belay:waiting:cards:") }, patience, tick)
	require.NotContains(t, everything(t, client), "S3cr3t")

	digest, err := keys.LimitKey(cardNumber)
	require.NoError(t, err)
	call := func(key string) error {
		return belay.Do(t.Context(), client, one, key, func(context.Context) error { return nil }, belay.Skip)
	}
	require.ErrorIs(t, call(digest), belay.ErrOverLimit, "a caller of Do shares the gate")
	other, err := testKeys(t, "other").LimitKey(cardNumber)
	require.NoError(t, err)
	require.NoError(t, call(other), "other keys have other digests")
	whole, err := keys.LimitKey("")
	require.NoError(t, err)
	require.Empty(t, whole, "all jobs of a limit share a gate without a secret, as other classes do")
	may <- true
	may <- true
	require.Equal(t, 1, awaitValue(t, "the job that waited", began))
}

// Jobs that wait by their plain key, as those of an older version do, start in a worker that knows the class as
// encrypted.
func TestJobsThatWaitByAPlainKeyGoOn(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	limited := belay.Limited(belay.Limit{Name: "cards", Concurrency: 1}, func(a cardArgs) string { return a.Number })
	before, now := belay.Define[cardArgs]("Charge", limited), belay.Define[cardArgs]("Charge", limited, belay.Encrypted(testKeys(t, "k")))
	old, next := newServer(t, client, belay.ServerConfig{}), newServer(t, client, belay.ServerConfig{})
	began, may, ran := make(chan bool, 1), make(chan bool), make(chan int, 2)
	before.Handle(old, func(context.Context, cardArgs) error {
		began <- true
		<-may
		return nil
	})
	now.Handle(next, func(_ context.Context, args cardArgs) error { ran <- args.User; return nil })
	for user := range 3 {
		_, err := before.Enqueue(t.Context(), client, cardArgs{user, cardNumber})
		require.NoError(t, err)
	}
	stopped := running(t, old)
	awaitValue(t, "the first run", began)
	waiters := func() any {
		return client.Driver().Do(t.Context(), driver.Command("LLEN", client.Config().Prefix+":belay:waiting:cards:"+cardNumber))[0].Value
	}
	drivertest.Eventually(t, func() bool { return waiters() == int64(2) }, patience, tick)
	old.Stop() // it takes no more
	running(t, next)
	may <- true
	require.NoError(t, awaitValue(t, "the old server's end", stopped))
	require.ElementsMatch(t, []int{1, 2}, []int{awaitValue(t, "a waiter", ran), awaitValue(t, "the other waiter", ran)})
	noSlotLeft(t, client)
}

func TestEncrypted(t *testing.T) {
	t.Parallel()
	keys := testKeys(t, "k")
	type rest struct {
		A    int
		Rest []string `belay:",rest"`
	}
	type omitted struct {
		A int
		B string `json:",omitempty"`
	}
	t.Run("refuses what it could not keep", func(t *testing.T) {
		t.Parallel()
		for want, define := range map[string]func(){
			"the option Encrypted has no keys; check the error of ParseKeys": func() { belay.Define[int]("A", belay.Encrypted(belay.Keys{})) },
			"the option Encrypted is given twice":                            func() { belay.Define[int]("A", belay.Encrypted(keys), belay.EncryptedAll(keys)) },
			"which one of belay_test.rest that is differs":                   func() { belay.Define[rest]("A", belay.Encrypted(keys)) },
			"which one of belay_test.omitted that is differs":                func() { belay.Define[omitted]("A", belay.Encrypted(keys)) },
			"which one of struct {} that is differs":                         func() { belay.Define[struct{}]("A", belay.Encrypted(keys)) },
			"an option has no effect without a Definition":                   func() { newServer(t, openShared(t), belay.ServerConfig{}).HandleRaw("A", idle, belay.Encrypted(keys)) },
			"belay: Handle A: it is encrypted: the keys of BELAY_NO_": func() {
				belay.Define[int]("A", belay.Encrypted(belay.KeysFromEnv("BELAY_NO_SUCH_KEYS"))).Handler(func(context.Context, int) error { return nil })
			},
		} {
			func() {
				defer func() { require.Contains(t, fmt.Sprint(recover()), want) }()
				define()
			}()
		}
		belay.Define[rest]("A", belay.EncryptedAll(keys))
		belay.Define[struct{ cardArgs }]("A", belay.NamedArgs(), belay.Encrypted(keys))
	})
	t.Run("fails a push without keys, or with its field set, and stores nothing", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		_, err := belay.Define[int]("A", belay.Encrypted(belay.KeysFromEnv("BELAY_NO_SUCH_KEYS"))).Enqueue(t.Context(), client, 1)
		require.ErrorContains(t, err, "encrypt the arguments: the keys of BELAY_NO_SUCH_KEYS: neither variable")
		_, err = belay.Define[int]("A", belay.Encrypted(keys)).Enqueue(t.Context(), client, 1, belay.Field("encrypt", false))
		require.ErrorContains(t, err, `the field "encrypt" cannot be set like this`)
		require.Zero(t, waiting(t, client))
	})
	t.Run("is refused for a periodic job", func(t *testing.T) {
		t.Parallel()
		server := newServer(t, openShared(t), belay.ServerConfig{})
		err := server.Schedule(belay.Periodic{Name: "n", Cron: "@daily", Job: belay.Define[int]("A", belay.Encrypted(keys)).Job(1)})
		require.ErrorContains(t, err, "Encrypted: its arguments are in the program's code")
	})
	t.Run("runs jobs that were pushed before, and never hands out an encrypted text as an argument", func(t *testing.T) {
		t.Parallel()
		plain := belay.Define[cardArgs]("Charge")
		sealed := belay.Define[cardArgs]("Charge", belay.Encrypted(keys))
		client := openShared(t)
		jobs := make(map[string]*belay.Job)
		for name, d := range map[string]*belay.Definition[cardArgs]{"plain": plain, "sealed": sealed} {
			_, err := d.Enqueue(t.Context(), client, cardArgs{42, cardNumber})
			require.NoError(t, err)
			reply := client.Driver().Do(t.Context(), driver.Command("RPOP", client.Config().Prefix+":queue:default"))[0]
			require.NoError(t, reply.Err)
			jobs[name], err = job.Parse(reply.Value.(string))
			require.NoError(t, err)
		}
		got, err := sealed.Args(jobs["plain"])
		require.NoError(t, err)
		require.Equal(t, cardArgs{42, cardNumber}, got)
		got, err = plain.Args(jobs["sealed"])
		require.ErrorContains(t, err, "the class has no keys in this program")
		require.Zero(t, got)
	})
	t.Run("applies to many jobs and to prepared ones", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		d := belay.Define[cardArgs]("Charge", belay.Encrypted(keys))
		_, err := d.EnqueueMany(t.Context(), client, slices.Values([]cardArgs{{1, cardNumber}, {2, cardNumber}}))
		require.NoError(t, err)
		prepared, _, err := client.Prepare(t.Context(), d.Job(cardArgs{3, cardNumber}))
		require.NoError(t, err)
		require.Equal(t, int64(2), waiting(t, client))
		require.NotContains(t, fmt.Sprintf("%+v", prepared)+everything(t, client), "S3cr3t")
	})
}
