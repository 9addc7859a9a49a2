package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

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

// batchActs are the acts on a batch: each reports whether the batch exists.
var batchActs = map[string]struct {
	do   func(*inspect.Inspector, context.Context, string) (bool, error)
	done string
}{
	"seal":       {(*inspect.Inspector).SealBatch, "is sealed"},
	"invalidate": {(*inspect.Inspector).InvalidateBatch, "is invalid: its members that have not started are dropped"},
	"remove":     {(*inspect.Inspector).DeleteBatch, "is deleted; its jobs stay"},
}

// batchAct seals, invalidates or deletes a batch.
func (d *Dashboard) batchAct(v *visit) error {
	act := Act{Name: oneOf(v.form.Get("do"), "seal", "invalidate", "remove"), Batch: v.form.Get("bid")}
	if act.Name == "" || act.Batch == "" {
		return fail(http.StatusBadRequest, "The form names no act, or no batch.")
	}
	back := "batch?" + url.Values{"bid": {act.Batch}}.Encode()
	if act.Name == "remove" {
		back = "batches"
	}
	return d.perform(v, act, back, func() (flash, []any, error) {
		chosen := batchActs[act.Name]
		found, err := chosen.do(d.inspector, v.ctx, act.Batch)
		if err == nil && !found {
			return flash{Text: "There is no such batch any more.", Bad: true}, []any{"found", false}, nil
		}
		return flash{Text: fmt.Sprintf("%s %s.", cut(80, act.Batch), chosen.done)}, []any{"found", found}, err
	})
}
