package integration

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/check"
	"github.com/belayq/belay/integration/oracle"
)

// A scheduledPrice has what encoding/json and others write as Ruby does not.
type scheduledPrice struct {
	Order struct {
		Amount float64            `json:"amount"`
		Tax    float32            `json:"tax"`
		By     map[string]float64 `json:"by"`
		Note   string             `json:"note"`
	}
	Small, Large float64
	Any          any
}

// However the arguments of a job came to Belay, Sidekiq finds its entry again by the text that it writes
// itself: its reschedule, retry and delete leave no second copy.
func TestRubyFindsWhatBelayPushedByItsText(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		file := filepath.Join(t.TempDir(), "jobs")
		line := `{"class":"Odd","args":["caf\u00e9",1E5,1.50,"\/",{"a":1,"a":2}],"queue":"odd","own":[1e-7,"\u003c"],"at":2555000000.5}` + "\n"
		require.NoError(t, os.WriteFile(file, []byte(line+line+line+line), 0o600))
		for range 4 {
			_, errs, code := s.belay("push", "Odd", `"caf\u00e9"`, "1E5", "1.50", `"\/"`, "-0", `{ "a" : 1e-7 }`, "-q", "odd", "--in", "1h")
			require.Zero(t, code, errs)
		}
		_, errs, code := s.belay("push", "--file", file)
		require.Zero(t, code, errs)

		client, err := belay.Open(t.Context(), s.urlOf(check.RoleProducer), nil)
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		priced := belay.Define[scheduledPrice]("Odd", belay.Queue("odd"))
		args := scheduledPrice{Small: 1e-7, Large: 1e21, Any: map[string]any{"whole": 3.0}}
		args.Order.Amount, args.Order.Tax, args.Order.By, args.Order.Note = 2, 0.1, map[string]float64{"a": 4}, "<é\u2028>"
		for range 4 {
			_, err := priced.Enqueue(t.Context(), client, args, belay.In(time.Hour))
			require.NoError(t, err)
		}

		scheduled := ruby.entries(t, "schedule")
		require.Len(t, scheduled, 12)
		var jids []string
		for jid, entry := range scheduled {
			require.True(t, entry.SameBytes, entry.Args)
			jids = append(jids, jid)
		}
		for n, jid := range jids {
			at := seconds(time.Now().Add(2 * time.Hour))
			ruby.ask(t, nil, "reschedule", "schedule", jid, at)
			after := ruby.entries(t, "schedule")
			require.Len(t, after, len(jids)-n, "a copy was made")
			require.InDelta(t, at, after[jid].Score, 0.01)
			ruby.ask(t, nil, "delete", "schedule", jid)
		}
		require.Empty(t, ruby.entries(t, "schedule"))
	}, oracle.Operators())
}
