package fetch

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestASettleSearchesFromTheEndThatItsJobsAreNearerTo(t *testing.T) {
	t.Parallel()
	const oldest, newest = "-1", "1"
	tests := map[string]struct {
		mail, low int // jobs that run; those of low are newer
		ends      []int
		coming    int // jobs that takes in flight may bring
		want      string
	}{
		"the_newest_beside_long_runs":      {mail: 8, ends: []int{6, 7}, want: newest},
		"whatever_the_order_of_their_ends": {mail: 8, ends: []int{7, 6}, want: newest},
		"the_oldest":                       {mail: 8, ends: []int{0, 1}, want: oldest},
		"all":                              {mail: 8, ends: []int{0, 1, 2, 3, 4, 5, 6, 7}, want: oldest},
		"an_old_one_beside_the_newest":     {mail: 8, ends: []int{7, 0}, want: oldest},
		"in_the_middle_when_more_come":     {mail: 8, ends: []int{5}, coming: 3, want: oldest},
		"the_newest_when_fewer_come":       {mail: 8, ends: []int{5}, coming: 2, want: newest},
		"beside_long_runs_of_other_queues": {mail: 6, low: 2, ends: []int{6, 7}, want: oldest},
		"the_newest_of_two_queues":         {mail: 6, low: 2, ends: []int{5}, want: newest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, clients["go-redis"], 8, "mail", "low")
			r.push("mail", test.mail)
			r.push("low", test.low)
			r.pump("all jobs", func() bool { return len(r.running) == 8 && r.k.inFlight == 0 })
			for _, i := range test.ends {
				r.finish(r.running[i], job.Done())
			}
			r.k.intakes[0].reserve(test.coming)
			b := r.k.nextBatch()
			r.k.intakes[0].reserve(-test.coming)
			args := b.ask.Call.Args
			require.Equal(t, test.want, args[slices.Index(args, "done")+4])

			r.k.moveAll(b, unacked) // so that it is sent
			r.k.unacked = append(r.k.unacked, b)
			r.settled()
			require.Len(t, append(r.working("mail"), r.working("low")...), 8-len(test.ends))
			require.NotContains(t, r.log.String(), "ownership lost")
		})
	}
}
