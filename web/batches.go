package web

import (
	"net/http"
	"strconv"

	"github.com/belayq/belay/inspect"
)

// batchesBody is what the page of all batches shows.
type batchesBody struct {
	Batches []inspect.Batch
	// Of the pager, as in a setBody.
	In                              string
	Page, Pages, First, Last, Total int
	Self                            string
}

// maxBatches bounds the batches of one page, and maxBatchPages the number that an address may ask for.
const maxBatches, maxBatchPages = 100, 1 << 30

func (d *Dashboard) batches(v *visit) error {
	number, _ := strconv.Atoi(v.form.Get("page"))
	body := batchesBody{In: "batches", Self: "batches?page=", Page: max(min(number, maxBatchPages), 1)}
	for {
		var err error
		if body.Batches, body.Total, err = d.inspector.BatchesFrom(v.ctx, (body.Page-1)*maxBatches, maxBatches); err != nil {
			return err
		}
		if body.Pages = max((body.Total+maxBatches-1)/maxBatches, 1); body.Page <= body.Pages {
			break
		}
		body.Page = body.Pages // some were deleted, or there was never such a page
	}
	body.First = (body.Page-1)*maxBatches + 1
	body.Last = min(body.Page*maxBatches, body.Total)
	return d.show(v, "batches", page{Title: "Batches", Nav: "batches", Live: 4, Body: body})
}

func (d *Dashboard) batch(v *visit) error {
	id := v.form.Get("bid")
	batch, found, err := d.inspector.Batch(v.ctx, id)
	if err != nil {
		return err
	}
	if !found {
		return fail(http.StatusNotFound, "There is no batch %s.", plain(cut(200, id)))
	}
	return d.show(v, "batch", page{Title: id, Nav: "batches", Live: 4, Body: batch})
}
