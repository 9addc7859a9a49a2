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

var once = belay.Unique(belay.UntilExecuting)

func push(ctx context.Context, c *belay.Client) {
	_, _ = reindex.Enqueue(ctx, c, 1, belay.Unique(belay.UntilExecuting))
	_, _ = bill.Enqueue(ctx, c, 1, belay.Queue("bills"))
	_, _ = bill.Enqueue(ctx, c, 1, belay.NotUnique())
	_, _ = bill.Enqueue(ctx, c, 1, belay.Unique(belay.UntilExecuted)) // want `^Bill is NotIdempotent`
	_ = bill.Item(1, once)                                            // want `^Bill is NotIdempotent`
	options := []belay.JobOption{once}
	_, _ = bill.EnqueueMany(ctx, c, slices.Values([]int64{1}), options...) // want `^Bill is NotIdempotent`
}
