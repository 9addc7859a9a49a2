package web

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/belayq/belay/inspect"
)

// queuesBody is what the page of all queues shows.
type queuesBody struct {
	Queues  []inspect.Queue
	Sort    string
	Further int
	Most    int64 // the largest size, for the bars
}

func (d *Dashboard) queues(v *visit) error {
	status, err := d.status(v.ctx)
	if err != nil {
		return err
	}
	body := queuesBody{Queues: slices.Clone(status.Queues), Sort: cmp.Or(oneOf(v.form.Get("sort"), "name", "size", "latency"), "name")}
	slices.SortStableFunc(body.Queues, func(a, b inspect.Queue) int {
		switch body.Sort {
		case "size":
			return cmp.Compare(b.Size, a.Size)
		case "latency":
			return cmp.Compare(b.Latency.Duration, a.Latency.Duration)
		}
		return cmp.Compare(a.Name, b.Name)
	})
	for _, queue := range body.Queues {
		body.Most = max(body.Most, queue.Size)
	}
	body.Further = int(status.QueueCount) - len(body.Queues)
	return d.show(v, "queues", page{Title: "Queues", Nav: "queues", Live: 2, Status: &status.Status, Body: body})
}

// queueBody is what the page of one queue shows.
type queueBody struct {
	Queue       inspect.Queue
	Known       bool // Redis lists it
	Consumers   []inspect.Process
	Set         setBody
	Quarantined setBody
}

func (d *Dashboard) queue(v *visit) error {
	name := v.form.Get("name")
	status, err := d.status(v.ctx)
	if err != nil {
		return err
	}
	var body queueBody
	if body.Queue, body.Known, err = d.inspector.Queue(v.ctx, name, status.Status); err != nil {
		return err
	}
	for _, process := range status.Processes {
		if process.State == inspect.StateAlive && !process.Quiet && slices.Contains(process.Queues, name) {
			body.Consumers = append(body.Consumers, process)
		}
	}
	if body.Set, err = d.readSet(v, "queue", name); err != nil {
		return err
	}
	if !body.Set.Filtered {
		if body.Quarantined, err = d.readSet(v, "quarantined", name); err != nil {
			return err
		}
		body.Queue.Size = int64(body.Set.Total) // the status may be a second old
	}
	if !body.Known && body.Set.Total+body.Quarantined.Total == 0 {
		return fail(http.StatusNotFound, "No job was ever pushed to queue %s.", plain(cut(300, name)))
	}
	return d.show(v, "queue", page{Title: name, Nav: "queues", Live: liveOf(body.Set), Status: &status.Status, Body: body})
}
