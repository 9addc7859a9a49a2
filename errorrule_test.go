package belay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
)

var (
	errDeclined = errors.New("card declined")
	errBusy     = errors.New("too many requests")
)

// A staleError is an error of a type that a rule names.
type staleError struct {
	Version int
	more    string
}

func (e *staleError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("version %d is stale %s", e.Version, e.more))
}

// An error says what happens to its job, for one class or for all of a server; an error that does not count
// leaves neither a count nor an error.
func TestAnErrorDecidesAboutItsJob(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	log := &drivertest.Buffer{}
	server := newServer(t, client, belay.ServerConfig{
		Logger:     belay.Zerolog(zerolog.New(log)),
		ErrorRules: []belay.ErrorRule{belay.DiscardOn((*staleError)(nil)), belay.SnoozeOn(errDeclined)},
	})
	fail := func(err error) func(context.Context, int) error {
		return func(context.Context, int) error { return fmt.Errorf("charge: %w", err) }
	}
	hour := belay.Backoff(func(int, error, *belay.Job) time.Duration { return time.Hour })
	charge := belay.Define[int]("Charge", belay.KillOn(errDeclined), belay.SnoozeOn(errBusy), hour)
	charge.Handle(server, fail(errDeclined))
	update := belay.Define[int]("Update")
	update.Handle(server, fail(&staleError{Version: 3}))
	fetched := belay.Define[int]("Fetch", belay.SnoozeOn(errBusy), hour)
	fetched.Handle(server, fail(errBusy))
	other := belay.Define[int]("Other", hour)
	other.Handle(server, fail(errors.New("bug")))
	running(t, server)

	redis := func(command, key string, args ...string) any {
		command = strings.Join(append([]string{command, client.Config().Prefix + ":" + key}, args...), " ")
		reply := client.Driver().Do(t.Context(), driver.Command(strings.Fields(command)...))[0]
		require.NoError(t, reply.Err)
		return reply.Value
	}
	receipts := map[string]string{}
	for _, d := range []*belay.Definition[int]{charge, update, fetched, other} {
		receipt, err := d.Enqueue(t.Context(), client, 1)
		require.NoError(t, err)
		receipts[d.Class()] = receipt.JID
	}
	drivertest.Eventually(t, func() bool {
		return redis("ZCARD", "dead") == int64(1) && redis("ZCARD", "schedule") == int64(1) && redis("ZCARD", "retry") == int64(1) &&
			strings.Contains(log.String(), `"exit":"discarded"`)
	}, patience, tick)
	only := func(set string) string {
		return fmt.Sprint(redis("ZRANGE", set, "0", "-1"))
	}
	require.Contains(t, only("dead"), receipts["Charge"])
	require.Contains(t, only("dead"), `"error_message":"charge: card declined"`)
	require.Contains(t, only("retry"), receipts["Other"])
	snoozed := only("schedule")
	require.Contains(t, snoozed, receipts["Fetch"])
	require.NotContains(t, snoozed, "error_message")
	require.NotContains(t, snoozed, "retry_count")
	require.Contains(t, log.String(), `"message":"run snoozed for its error"`)
	drivertest.Eventually(t, func() bool { return fmt.Sprint(redis("GET", "stat:failed")) == "3" }, patience, tick)
	require.Equal(t, "3", fmt.Sprint(redis("GET", "stat:processed")), "a snoozed run is not counted")
}

func TestARuleWithoutAnErrorIsRefused(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, `belay: Define "A": an error rule: it names no error`, func() { belay.Define[int]("A", belay.KillOn()) })
	_, err := belay.NewServer(openShared(t), belay.ServerConfig{ErrorRules: []belay.ErrorRule{belay.KillOn(errBusy), belay.DiscardOn(nil)}})
	require.ErrorContains(t, err, "error rule 2: one of its errors is nil")
}

// A class that asks for it keeps the errors of its last failed runs in the payload; others keep the last one.
func TestAJobKeepsTheErrorsOfItsLastFailedRuns(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	server := newServer(t, client, belay.ServerConfig{})
	soon := belay.Backoff(func(int, error, *belay.Job) time.Duration { return time.Millisecond })
	kept := belay.Define[int]("Kept", belay.KeepErrors(2), belay.Retries(2), soon)
	plain := belay.Define[int]("Plain", belay.Retries(2), soon)
	fail := func(ctx context.Context, _ int) error {
		info, _ := belay.Info(ctx)
		return fmt.Errorf("attempt %d of %d", info.Attempt, info.MaxAttempts)
	}
	kept.Handle(server, fail)
	plain.Handle(server, fail)
	died := make(chan string, 2)
	server.OnDeath(func(_ context.Context, j *belay.Job, _ error) { died <- j.Class() })
	running(t, server)
	for _, d := range []*belay.Definition[int]{kept, plain} {
		_, err := d.Enqueue(t.Context(), client, 1)
		require.NoError(t, err)
		require.Equal(t, d.Class(), awaitValue(t, "its death", died))
	}
	inspector := inspect.New(client)
	dead := make(map[string]inspect.Entry)
	drivertest.Eventually(t, func() bool {
		for found, err := range inspector.Jobs(t.Context(), inspect.Query{Places: []inspect.Place{inspect.PlaceDead}}) {
			require.NoError(t, err)
			dead[found.Class] = *found.Entry
		}
		return len(dead) == 2
	}, patience, tick)
	errs := dead["Kept"].Errors
	require.Len(t, errs, 2)
	require.Equal(t, []string{"attempt 2 of 3", "attempt 3 of 3"}, []string{errs[0].Message, errs[1].Message})
	require.Equal(t, []int{2, 3}, []int{errs[0].Attempt, errs[1].Attempt})
	require.WithinDuration(t, time.Now(), errs[0].At, time.Minute)
	require.Equal(t, "3 of 3", dead["Kept"].FailedRuns())
	require.Nil(t, dead["Plain"].Errors)
	require.Equal(t, "attempt 3 of 3", dead["Plain"].ErrorMessage)
	require.Panics(t, func() { belay.Define[int]("A", belay.KeepErrors(0)) })
}
