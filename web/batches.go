package web

import (
	"net/http"

	"github.com/belayq/belay/inspect"
)

// batchesBody is what the page of all batches shows.
type batchesBody struct {
	Total   int64
	Batches []inspect.Batch
	Further bool
}

// maxBatches bounds the batches of one page.
const maxBatches = 100

func (d *Dashboard) batches(v *visit) error {
	total, err := d.inspector.BatchCount(v.ctx)
	if err != nil {
		return err
	}
	body := batchesBody{Total: total}
	for batch, err := range d.inspector.Batches(v.ctx) {
		if err != nil {
			return err
		}
		if body.Further = len(body.Batches) == maxBatches; body.Further {
			break
		}
		body.Batches = append(body.Batches, batch)
	}
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
