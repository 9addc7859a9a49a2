package web

import (
	"net/http"
	"strings"
)

// A route is what one path answers. A path without post changes nothing, whatever is sent to it.
type route struct {
	get  func(*Dashboard, *visit) error
	post func(*Dashboard, *visit) error
	// open routes need no authentication.
	open bool
	// sums routes are about all shards if the address names none.
	sums bool
}

// routes returns all paths. A path is compared as it is, and names of queues and jobs stand in queries: a queue
// may be called "..", and no name can lead to another route.
func routes() map[string]route {
	table := map[string]route{
		"/":            {get: (*Dashboard).overview, sums: true},
		"/series.json": {get: (*Dashboard).series, sums: true},
		"/busy":        {get: (*Dashboard).busy},
		"/signal":      {get: (*Dashboard).askSignal, post: (*Dashboard).signal},
		"/queues":      {get: (*Dashboard).queues},
		"/queue":       {get: (*Dashboard).queue, post: queueKind.act},
		"/scheduled":   {get: setPage("scheduled", "Scheduled")},
		"/retries":     {get: setPage("retries", "Retries")},
		"/dead":        {get: setPage("dead", "Dead")},
		"/completed":   {get: setPage("completed", "Completed")},
		"/job":         {get: (*Dashboard).job},
		"/confirm":     {get: (*Dashboard).confirm},
		"/act":         {post: (*Dashboard).act},
		"/cancel":      {post: (*Dashboard).cancel},
		"/periodic":    {get: (*Dashboard).periodic, post: periodicKind.act},
		"/history":     {get: (*Dashboard).history},
		"/locks":       {get: (*Dashboard).locks, post: lockKind.act},
		"/batches":     {get: (*Dashboard).batches, post: batchKind.act},
		"/batch":       {get: (*Dashboard).batch},
		"/limits":      {get: (*Dashboard).limits, post: limitAct},
		"/limit":       {get: (*Dashboard).limit},
		"/classes":     {get: (*Dashboard).classes, post: classKind.act},
		"/redis":       {get: (*Dashboard).redis},
		"/reset":       {get: (*Dashboard).reset, post: (*Dashboard).resetCounters},
		"/healthz":     {get: (*Dashboard).health, open: true, sums: true},
		"/metrics":     {get: (*Dashboard).metrics, sums: true},
	}
	for name, file := range assets {
		table["/assets/"+name] = route{get: file.serve}
	}
	return table
}

// allowed returns the methods of a route, for the Allow header.
func (r route) allowed() string {
	var methods []string
	if r.get != nil {
		methods = append(methods, http.MethodGet, http.MethodHead)
	}
	if r.post != nil {
		methods = append(methods, http.MethodPost)
	}
	return strings.Join(methods, ", ")
}

// handler returns the function for a method, or nil.
func (r route) handler(method string) func(*Dashboard, *visit) error {
	switch method {
	case http.MethodGet, http.MethodHead:
		return r.get
	case http.MethodPost:
		return r.post
	}
	return nil
}
