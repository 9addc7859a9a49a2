package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/belayq/belay/inspect"
)

// shardPath begins the path of every page of a shard: /shard=NAME/queues. All addresses in pages are relative,
// so links, forms, redirects and refreshes keep the shard, and no page knows of shards.
const shardPath = "/shard="

// choose returns the Dashboard that serves a path, and the path within it: that of the shard that the path
// names, or of all shards together. Without shards it returns its arguments.
func (d *Dashboard) choose(v *visit, path string) (chosen *Dashboard, within string, err error) {
	if len(d.shards) == 0 {
		return d, path, nil
	}
	chosen, within = d, path
	if rest, is := strings.CutPrefix(path, shardPath); is {
		name, _, _ := strings.Cut(rest, "/")
		if chosen = d.shard(name); chosen == nil {
			return nil, "", fail(http.StatusNotFound, "There is no shard %s.", plain(cut(40, name)))
		}
		within, v.inShard = rest[len(name):], true
	}
	v.shards = d.shardLinks(v, chosen, within)
	return chosen, within, nil
}

func (d *Dashboard) shard(name string) *Dashboard {
	for _, shard := range d.shards {
		if shard.name == name {
			return shard
		}
	}
	return nil
}

// shardLinks returns the links from a page to the same page of each shard, and to the overview of all.
func (d *Dashboard) shardLinks(v *visit, chosen *Dashboard, within string) []choice {
	root, page := rootOf(v.r, d.cfg.BasePath), "/"
	if route, found := d.routes[within]; found && route.get != nil && v.r.Method == http.MethodGet {
		query := v.r.URL.Query()
		for _, place := range []string{"after", "cursor", "looked", "counted", "ref"} { // of one shard
			query.Del(place)
		}
		page = (&url.URL{Path: within, RawQuery: query.Encode()}).String()
	}
	links := []choice{{"All shards", root + "./", chosen == d}}
	for _, shard := range d.shards {
		links = append(links, choice{shard.name, root + shardPath[1:] + shard.name + page, chosen == shard})
	}
	return links
}

// toShard sends a visit without a shard on to the page of one: of the first, if nothing tells which.
func (d *Dashboard) toShard(v *visit, within string) error {
	if v.r.Method == http.MethodPost {
		return fail(http.StatusBadRequest, "Choose a shard first: an act is about one.")
	}
	name := d.shards[0].name
	if jid := v.form.Get("jid"); within == "/job" && jid != "" {
		ctx, cancel := context.WithTimeout(v.ctx, d.patientTime) // the page of a shard searches on, and this one does not
		defer cancel()
		found, err := d.fleet.FindAll(ctx, inspect.Query{IDs: []string{jid}}, nil)
		if err != nil {
			return err
		}
		shard := found[0].Shard
		if shard == "" {
			shard = d.shardOfBatch(v.ctx, jid)
		}
		if shard == "" && found[0].Unseen != "" {
			return fail(http.StatusNotFound, "Job %s was not found, but not everything was searched: %s. Choose a shard to search all of it.",
				plain(cut(100, jid)), plain(cut(1000, found[0].Unseen)))
		}
		name = cmp.Or(shard, name)
	}
	v.redirect((&url.URL{Path: shardPath[1:] + name + within, RawQuery: v.r.URL.RawQuery}).String())
	return nil
}

// shardOfBatch returns the name of the shard that has a batch; empty if none of those that answer has it.
func (d *Dashboard) shardOfBatch(ctx context.Context, id string) string {
	for _, shard := range d.shards {
		if _, found, err := shard.inspector.Batch(ctx, id); err == nil && found {
			return shard.name
		}
	}
	return ""
}
