package belay_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

type webhook struct {
	Tenant string
	URL    string
}

func tenantOf(w webhook) string { return w.Tenant }

func TestDefineNamesEveryMistakeOfALimit(t *testing.T) {
	t.Parallel()
	five := belay.Limit{Name: "five", Concurrency: 5}
	for _, c := range []struct {
		promise string
		define  func()
		says    []string
	}{
		{"all_of_the_limit_itself", func() { belay.Define[webhook]("A", belay.LimitedTo(belay.Limit{Concurrency: -1, Rate: belay.Window(0, 0)})) },
			[]string{"its name must", "concurrency -1", "a window of 0 starts", "a window of 0s"}},
		{"a_limit_of_nothing", func() { belay.Define[webhook]("A", belay.LimitedTo(belay.Limit{Name: "x"})) }, []string{"it limits nothing"}},
		{"a_key_of_other_arguments", func() { belay.Define[int]("A", belay.Limited(five, tenantOf)) },
			[]string{"wants a belay_test.webhook, and the arguments are a int"}},
		{"no_key", func() { belay.Define[webhook]("A", belay.Limited[webhook](five, nil)) }, []string{"the key of Limited is nil"}},
		{"two_limits", func() { belay.Define[webhook]("A", belay.LimitedTo(five), belay.Limited(five, tenantOf)) }, []string{"has two limits"}},
		{"typed_keys_without_a_definition", func() {
			server := newServer(t, openShared(t), belay.ServerConfig{})
			server.HandleRaw("A", func(context.Context, *belay.Job) error { return nil }, belay.Limited(five, tenantOf))
		}, []string{"wants a belay_test.webhook"}},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			defer func() {
				text, _ := recover().(string)
				for _, part := range c.says {
					require.Contains(t, text, part)
				}
			}()
			c.define()
		})
	}
}

func TestTwoSizesOfOneLimitAreAMistake(t *testing.T) {
	t.Parallel()
	server := newServer(t, openShared(t), belay.ServerConfig{})
	none := func(context.Context, webhook) error { return nil }
	belay.Define[webhook]("A", belay.LimitedTo(belay.Limit{Name: "five", Concurrency: 5})).Handle(server, none)
	belay.Define[webhook]("B", belay.Limited(belay.Limit{Name: "five", Concurrency: 5}, tenantOf)).Handle(server, none)
	require.PanicsWithValue(t, `belay: Handle C: the limit "five" has two sizes; declare it once and use it for both classes`, func() {
		belay.Define[webhook]("C", belay.LimitedTo(belay.Limit{Name: "five", Rate: belay.Leaky(1, time.Second)})).Handle(server, none)
	})
	server.HandleRaw("D", func(context.Context, *belay.Job) error { return nil },
		belay.Limited(belay.Limit{Name: "raw", Concurrency: 1}, func(j *belay.Job) string { return j.JID() }))
}
