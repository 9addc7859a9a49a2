package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/belayq/belay/inspect"
)

// limitsBody is what the page of all limits shows.
type limitsBody struct {
	inspect.Limits
	// Check is the result of a comparison of counts that was asked for.
	Check *inspect.LimitCheck
}

func (d *Dashboard) limits(v *visit) error {
	limits, err := d.inspector.Limits(v.ctx)
	if err != nil {
		return err
	}
	body, live := limitsBody{Limits: limits}, 4
	if v.form.Get("check") != "" {
		check, err := d.inspector.CheckLimits(v.ctx)
		if err != nil {
			return err
		}
		body.Check, live = &check, 0
	}
	return d.show(v, "limits", page{Title: "Limits", Nav: "limits", Live: live, Body: body})
}

// limitBody is what the page of one limit shows, or of one of its gates.
type limitBody struct {
	inspect.LimitDetails
	// IsRule is set if it is the rule of a class, which the page of classes changes.
	IsRule bool
	// Gate is the name of the gate that is shown, and Set has the jobs that wait there; empty for all gates.
	Gate string
	Set  setBody
}

func (d *Dashboard) limit(v *visit) error {
	name := v.form.Get("name")
	body, live := limitBody{}, 4
	_, body.IsRule = inspect.ClassOfLimit(name)
	var key *string
	if v.form.Has("key") {
		only := v.form.Get("key")
		key, body.Gate = &only, name+":"+only
	}
	var found bool
	var err error
	if body.LimitDetails, found, err = d.inspector.Limit(v.ctx, name, key); err != nil {
		return err
	}
	if !found {
		return fail(http.StatusNotFound, "There is no limit %s.", plain(cut(200, name)))
	}
	if body.Gate != "" {
		if body.Set, err = d.readSet(v, string(inspect.PlaceWaiting), body.Gate); err != nil {
			return err
		}
		live = liveOf(body.Set)
	}
	return d.show(v, "limit", page{Title: cmp.Or(body.Gate, name), Nav: "limits", Live: live, Body: body})
}

// ofGate returns the query of the page of a gate.
func ofGate(gate string) url.Values {
	limit, key, _ := strings.Cut(gate, ":")
	return url.Values{"name": {limit}, "key": {key}}
}

// keyOf returns the key of a gate; empty for that of a limit without a key.
func keyOf(gate string) string { return ofGate(gate).Get("key") }

// hiddenOf returns the fields that name the list of a page with a filter.
func hiddenOf(b setBody) map[string]string {
	switch {
	case b.In == string(inspect.PlaceWaiting):
		query := ofGate(b.Queue)
		return map[string]string{"name": query.Get("name"), "key": query.Get("key")}
	case b.Queue != "":
		return map[string]string{"name": b.Queue}
	}
	return nil
}

// concurrencyOf writes the concurrency of a limit.
func concurrencyOf(concurrency *int) string {
	if concurrency == nil {
		return ""
	}
	return strconv.Itoa(*concurrency)
}
