package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/belayq/belay/inspect"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages by name. Each has the layout and the parts.
var templates = parseTemplates("error", "overview", "busy", "queues", "queue", "set", "job", "confirm", "progress", "locks", "redis",
	"classes", "reset", "signal", "periodic", "history", "batches", "batch", "limits", "limit")

func parseTemplates(names ...string) map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	pages := make(map[string]*template.Template, len(names))
	for _, name := range names {
		pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return pages
}

var functions = template.FuncMap{
	"text":     shown,
	"lines":    shownLines,
	"class":    shownClass,
	"name":     shownName,
	"plain":    plain,
	"cut":      cut,
	"figure":   figure,
	"span":     spanOf,
	"took":     func(took inspect.Seconds) string { return inspect.TookText(took, spanOf) },
	"quantile": func(p inspect.Seconds) string { return inspect.PercentileText(p, spanOf) },
	"memory":   memory,
	"size":     size,
	"when":     when,
	"asset":    assetURL,
	"plural":   plural,
	"percent":  percent,
	"dict":     dict,
	"compact":  compact,
	"add":      func(a, b int) int { return a + b },
	"list":     func(items ...string) []string { return items },
	"verb":     verbOf,
	"done":     doneOf,
	"effect":   effectOf,
	"bare":     bare,
	"where":    whereOf,
	"search":   searchOf,
	"pageOf":   pageOf,
	"homeName": homeName,
	"hidden":   hiddenOf,
	"keyOf":    keyOf,
	"number":   number,

	"concurrency": concurrencyOf,
	"firstFew":    firstFew[string],

	"perSecond": inspect.PerSecond,

	"topGroups": topGroups, "furtherGroups": furtherGroups,
	"capsules": firstFew[inspect.Capsule],
	"nextJobs": firstFew[inspect.NextJob],
	"further":  func(list []string) int { return max(len(list)-maxTags, 0) },
}

// maxTopGroups is how many groups stand above a list; a press shows the others, of which a page has at most
// maxGroupsShown.
const maxTopGroups, maxGroupsShown = 6, 100

func topGroups(groups []inspect.Group) []inspect.Group {
	return groups[:min(len(groups), maxTopGroups)]
}

func furtherGroups(groups []inspect.Group) []inspect.Group {
	return groups[min(len(groups), maxTopGroups):min(len(groups), maxGroupsShown)]
}

// maxTags bounds the queues, labels and capsules that a row shows of one process.
const maxTags = 12

func firstFew[T any](list []T) []T { return list[:min(len(list), maxTags)] }

// compact writes a count for the navigation: 1,234 or 56k or 1.2M.
func compact(count any) string {
	switch n := number(count); {
	case n < 10_000:
		return figure(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	default:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
}

// A moment is an instant in the page: for machines, in UTC, and relative to now.
type moment struct {
	ISO, UTC, Relative string
}

// when returns a moment, or nil without an instant. now is Redis' clock, so a browser whose clock is wrong
// shows the right distance.
func when(now, at time.Time) *moment {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	m := &moment{ISO: at.Format("2006-01-02T15:04:05.000Z"), UTC: at.Format("2006-01-02 15:04:05") + " UTC"}
	switch distance := at.Sub(now); {
	case now.IsZero():
		m.Relative = m.UTC
	case distance > time.Second:
		m.Relative = "in " + span(distance.Round(time.Second))
	case distance > -time.Second:
		m.Relative = "now"
	default:
		m.Relative = span((-distance).Round(time.Second)) + " ago"
	}
	return m
}

// plural writes a count with its noun.
func plural(n any, one, many string) string {
	if number(n) == 1 {
		many = one
	}
	return figure(n) + " " + many
}

// percent returns part/all as a whole number for the meters, at most 100.
func percent(part, all int) int {
	if all <= 0 {
		return 0
	}
	return min(100*part/all, 100)
}

// dict makes a map of the arguments of a template.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for n := 0; n+1 < len(pairs); n += 2 {
		m[fmt.Sprint(pairs[n])] = pairs[n+1]
	}
	return m
}

// A page is what the layout shows around a body.
type page struct {
	Title string
	Nav   string // the path of the navigation's current entry
	Live  int    // seconds between refreshes by the script; 0 for none
	Self  string // the address that the script reads instead of the page's own
	// Status has the counts of the navigation; nil if Redis cannot be read.
	Status   *inspect.Status
	Now      time.Time // by Redis' clock
	Acts     bool      // the user may act
	User     string
	Flash    *flash
	Search   string
	Offline  bool // an error page, which does not try to refresh itself
	Root     string
	Shards   []choice // the links to the shards; empty without shards
	InShard  bool     // the page is about one of them
	Body     any
	Busy     int // running jobs
	Capacity int // processors
}

// show renders a page. A template that fails is a bug: the log has its error.
func (d *Dashboard) show(v *visit, name string, p page) error {
	if p.Status == nil {
		if status, err := d.status(v.ctx); err == nil {
			p.Status = &status.Status
		}
	}
	if p.Status != nil {
		p.Now = p.Status.At
		for _, process := range p.Status.Processes {
			if process.State == inspect.StateAlive {
				p.Busy += process.Busy
				p.Capacity += process.Concurrency
			}
		}
	}
	p.Acts, p.User = d.mayAct(v), d.userName(v)
	p.Flash, p.Shards, p.InShard = d.takeFlash(v), v.shards, v.inShard
	var out bytes.Buffer
	if err := templates[name].ExecuteTemplate(&out, "layout", p); err != nil {
		d.cfg.Logger.Error("dashboard page cannot be rendered", "page", name, "error", err)
		return errFailed
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = v.w.Write(out.Bytes()) // the browser may have left
	return nil
}

// rootOf returns the relative path from a page to the root of the handler. Pages of errors need it: they may
// have any path.
func rootOf(r *http.Request, base string) string {
	below := strings.TrimPrefix(r.URL.EscapedPath(), base)
	return strings.Repeat("../", max(strings.Count(below, "/")-1, 0))
}
