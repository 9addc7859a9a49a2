// Package unique has classes of which duplicates are refused, rightly and not.
package unique

import (
	"context"
	"slices"

	"github.com/belayq/belay"
)

var (
	reindex = belay.Define[int64]("Reindex", belay.Idempotent(), belay.Unique(belay.UntilExecuted))
	points  = belay.Define[int64]("AddPoints", belay.NotIdempotent("a point too many is borne"),
		belay.Unique(belay.UntilExecuted)) // want `^AddPoints is NotIdempotent, so Unique refuses none of its duplicates: they are stored, and marked duplicate-of$`
	charge = belay.Define[int64]("Charge", belay.NotIdempotent("the bank is asked first"), once) // want `^Charge is NotIdempotent`
	bill   = belay.Define[int64]("Bill", belay.NotIdempotent("two bills are borne"))
)

// The last option that speaks of it counts, and one that is not seen may.
var (
	_ = belay.Define[int]("N", belay.Unique(belay.UntilExecuted), belay.NotIdempotent("x"), belay.NotUnique())
	_ = belay.Define[int]("N", belay.NotUnique(), once, belay.NotIdempotent("x")) // want `^N is NotIdempotent`
	_ = belay.Define[int]("N", once, belay.NotIdempotent("x"), house())
	_ = belay.Define[int]("N", house(), once, belay.NotIdempotent("x")) // want `^N is NotIdempotent`
)

func house() belay.JobOption { return belay.NotUnique() }

var once = belay.Unique(belay.UntilExecuting)

func push(ctx context.Context, c *belay.Client) {
	_, _ = reindex.Enqueue(ctx, c, 1, belay.Unique(belay.UntilExecuting))
	_, _ = bill.Enqueue(ctx, c, 1, belay.Queue("bills"))
	_, _ = bill.Enqueue(ctx, c, 1, belay.NotUnique())
	_, _ = bill.Enqueue(ctx, c, 1, belay.Unique(belay.UntilExecuted)) // want `^Bill is NotIdempotent`
	_ = bill.Item(1, once)                                            // want `^Bill is NotIdempotent`
	_ = bill.Item(1, once, belay.NotUnique())
	_ = bill.Item(1, once, house())
	_ = bill.Item(1, belay.NotUnique(), once) // want `^Bill is NotIdempotent`
	options := []belay.JobOption{once}
	_, _ = bill.EnqueueMany(ctx, c, slices.Values([]int64{1}), options...) // want `^Bill is NotIdempotent`
}
