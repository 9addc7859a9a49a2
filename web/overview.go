package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay/inspect"
)

// overviewBody is what the first page shows.
type overviewBody struct {
	Range   string // of the plots: now or hours
	Ranges  []choice
	Alerts  []alert
	Queues  []inspect.Queue       // the largest
	Further int                   // queues that are not among them
	Empty   bool                  // nothing was ever pushed here
	Shards  []inspect.ShardStatus // empty without shards
	Prefix  string
	History []inspect.Day // the last days, the youngest first
}

// A choice is one of several links of which one is current.
type choice struct {
	Label, Value string
	Current      bool
}

func choices(current string, pairs ...[2]string) []choice {
	list := make([]choice, len(pairs))
	for n, pair := range pairs {
		list[n] = choice{pair[1], pair[0], pair[0] == current}
	}
	return list
}

// An alert is something that an operator should look at.
type alert struct {
	Bad  bool
	Text string
	Link string
	Name string // the value of the link's query, if it has one
}

// maxQueuesShown bounds the queues of the first page; the page of queues has all.
const maxQueuesShown = 8

func (d *Dashboard) overview(v *visit) error {
	status, err := d.status(v.ctx)
	if err != nil {
		return err
	}
	body := overviewBody{Range: cmp.Or(oneOf(v.form.Get("range"), "now", "hours", "days"), "now"), Prefix: d.prefix}
	body.Ranges = choices(body.Range, [2]string{"now", "15 minutes"}, [2]string{"hours", "24 hours"}, [2]string{"days", "60 days"})
	body.Alerts, body.Shards = alerts(status.Status), status.Shards
	if body.Range == "days" {
		if body.History, err = d.dayCounts(v.ctx); err != nil {
			return err
		}
		slices.Reverse(body.History)
	}
	body.Queues = slices.Clone(status.Queues)
	slices.SortStableFunc(body.Queues, func(a, b inspect.Queue) int {
		return cmp.Or(cmp.Compare(b.Jobs(), a.Jobs()), cmp.Compare(a.Name, b.Name))
	})
	body.Queues = body.Queues[:min(len(body.Queues), maxQueuesShown)]
	body.Further = int(status.QueueCount) - len(body.Queues)
	body.Empty = !slices.ContainsFunc(status.Shards, away) && status.QueueCount == 0 && status.Processed == 0 && len(status.Processes) == 0 &&
		status.Scheduled+status.Retries+status.Dead == 0
	return d.show(v, "overview", page{Title: "Overview", Nav: "./", Live: 2, Status: &status.Status, Body: body})
}

func away(s inspect.ShardStatus) bool { return s.Problem != "" }

// oneOf returns the value if it is one of the others, or nothing.
func oneOf(value string, others ...string) string {
	if slices.Contains(others, value) {
		return value
	}
	return ""
}

// maxProblems bounds the problems among the alerts: more than these usually have one cause, such as a server
// that is away with several shards. The other alerts are at most one of each kind, so all fit above the
// figures.
const maxProblems = 4

// alerts returns the worst first: what could not be read, so that the figures below are wrong, then jobs that
// nothing runs, and then what an operator chose or a worker handles.
func alerts(s inspect.Status) (list []alert) {
	for _, problem := range s.Problems[:min(len(s.Problems), maxProblems)] {
		list = append(list, alert{Bad: true, Text: problem})
	}
	if more := len(s.Problems) - maxProblems; more > 0 {
		list = append(list, alert{Bad: true, Text: plural(more, "more problem", "more problems")})
	}
	lapsed := 0
	for _, process := range s.Processes {
		if process.State == inspect.StateLapsed {
			lapsed++
		}
	}
	if lapsed > 0 {
		list = append(list, alert{Bad: true, Link: "busy",
			Text: fmt.Sprintf("%s stopped sending heartbeats; %s waiting for recovery", plural(lapsed, "process has", "processes have"),
				plural(s.HeldByDead, "job is", "jobs are"))})
	}
	none := noWorker(s)
	if waiting := s.Enqueued + s.Quarantined + s.Waiting + s.HeldByDead; none && waiting > 0 {
		list = append(list, alert{Bad: true, Link: "busy", Text: "No worker is alive; " + plural(waiting, "job waits", "jobs wait") + whereTheyWait(s)})
	}
	var unserved, paused, quarantined []inspect.Queue
	for _, queue := range s.Queues {
		switch {
		case queue.NoConsumer && none: // one alert says so for all queues
		case queue.NoConsumer:
			unserved = append(unserved, queue)
		case queue.Paused:
			paused = append(paused, queue)
		}
		if queue.Quarantined > 0 && !queue.NoConsumer {
			quarantined = append(quarantined, queue)
		}
	}
	return append(list, slices.Concat(
		ofQueues(unserved, true, inspect.Queue.Jobs, func(q inspect.Queue) string {
			return fmt.Sprintf("%s of queue %s %s, and no process takes from it",
				plural(q.Jobs(), "job", "jobs"), q.Name, map[bool]string{true: "waits", false: "wait"}[q.Jobs() == 1])
		}, "%s have jobs and no consumer: %s"),
		ofQueues(paused, false, inspect.Queue.Jobs, func(q inspect.Queue) string {
			return fmt.Sprintf("Queue %s is paused; %s", q.Name, plural(q.Size, "job waits", "jobs wait"))
		}, "%s are paused: %s"),
		ofQueues(quarantined, false, func(q inspect.Queue) int64 { return q.Quarantined }, func(q inspect.Queue) string {
			return fmt.Sprintf("%s of queue %s to run alone, because processes crashed while running them",
				plural(q.Quarantined, "job waits", "jobs wait"), q.Name)
		}, "%s have jobs that wait to run alone, because processes crashed while running them: %s"),
	)...)
}

// maxNamed is how many queues one alert names.
const maxNamed = 3

// ofQueues returns one alert for all queues of a kind, none without a queue. It names those with the most jobs;
// a single one has a text of its own, and a link to its page.
func ofQueues(queues []inspect.Queue, bad bool, jobs func(inspect.Queue) int64, one func(inspect.Queue) string, several string) []alert {
	switch len(queues) {
	case 0:
		return nil
	case 1:
		return []alert{{Bad: bad, Link: "queue", Name: queues[0].Name, Text: one(queues[0])}}
	}
	slices.SortStableFunc(queues, func(a, b inspect.Queue) int { return cmp.Compare(jobs(b), jobs(a)) })
	var names []string
	for _, queue := range queues[:min(len(queues), maxNamed)] {
		names = append(names, cut(80, queue.Name))
	}
	text := strings.Join(names, ", ")
	if more := len(queues) - len(names); more > 0 {
		text += " and " + figure(more) + " more"
	}
	return []alert{{Bad: bad, Link: "queues?sort=size", Text: fmt.Sprintf(several, plural(len(queues), "queue", "queues"), text)}}
}

// whereTheyWait returns in which kinds of places the jobs wait that no worker takes.
func whereTheyWait(s inspect.Status) string {
	var places []string
	for _, place := range []struct {
		jobs int64
		text string
	}{{s.Enqueued + s.Quarantined, " in queues"}, {s.Waiting, " at limits"}, {s.HeldByDead, " for recovery"}} {
		if place.jobs > 0 {
			places = append(places, place.text)
		}
	}
	return strings.Join(places, " or")
}

// noWorker reports whether no process is alive, as far as all are known.
func noWorker(s inspect.Status) bool {
	alive := func(p inspect.Process) bool { return p.State == inspect.StateAlive }
	return s.ProcessesErr == nil && s.ProcessCount <= int64(len(s.Processes)) && !slices.ContainsFunc(s.Processes, alive)
}

// historyDays is how many days the plot of days shows.
const historyDays = 60

// dayCounts returns the counts of each day, the oldest first: with shards the sums of those that answer.
func (d *Dashboard) dayCounts(ctx context.Context) ([]inspect.Day, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout/2) // a shard that is away leaves time for the page
	defer cancel()
	shards := d.fleet.Shards()
	histories, errs := make([][]inspect.Day, len(shards)), make([]error, len(shards))
	var reads sync.WaitGroup
	for n, shard := range shards {
		reads.Go(func() { histories[n], _, errs[n] = shard.History(ctx, historyDays) })
	}
	reads.Wait()
	if !slices.Contains(errs, nil) {
		return nil, errors.Join(errs...)
	}
	var sum []inspect.Day
	for n, history := range histories {
		if errs[n] != nil {
			continue
		}
		for _, day := range history {
			at, found := slices.BinarySearchFunc(sum, day, func(a, b inspect.Day) int { return cmp.Compare(a.Date, b.Date) })
			if found {
				sum[at].Processed, sum[at].Failed = sum[at].Processed+day.Processed, sum[at].Failed+day.Failed
			} else {
				sum = slices.Insert(sum, at, day)
			}
		}
	}
	return sum, nil
}

func (d *Dashboard) days(v *visit) (series, error) {
	history, err := d.dayCounts(v.ctx)
	s := series{Days: true, At: []float64{}, Processed: []*float64{}, Failed: []*float64{}, Sizes: []line{}, Latencies: []line{}}
	for _, day := range history {
		at, dateErr := time.Parse(time.DateOnly, day.Date)
		if dateErr != nil {
			return s, dateErr
		}
		s.At = append(s.At, float64(at.Unix()))
		s.Processed, s.Failed = append(s.Processed, new(float64(day.Processed))), append(s.Failed, new(float64(day.Failed)))
	}
	return s, err
}

func (d *Dashboard) series(v *visit) error {
	if v.form.Get("range") == "days" {
		days, err := d.days(v)
		if err != nil {
			return err
		}
		return writeJSON(v, days)
	}
	if _, err := d.status(v.ctx); err != nil { // a new sample
		return err
	}
	d.mutex.Lock()
	recent, own := slices.Clone(d.recorder.recent.samples), slices.Clone(d.recorder.hours.samples)
	d.mutex.Unlock()
	if v.form.Get("range") != "hours" {
		return writeJSON(v, plot(recent))
	}
	if len(d.shards) > 0 { // Redis keeps the samples of each shard, taken at other times
		return writeJSON(v, plot(own))
	}
	stored, err := d.day.get(v.ctx, hoursEvery, d.readDay)
	if err != nil {
		stored = nil // the plot then has what the dashboard has seen
	}
	return writeJSON(v, plot(filled(stored, own)))
}

func (d *Dashboard) readDay(ctx context.Context) ([]inspect.Sample, error) {
	now, err := d.inspector.Now(ctx)
	if err != nil {
		return nil, err
	}
	return d.inspector.Samples(ctx, now.Add(-hoursMost*hoursEvery))
}

func writeJSON(v *visit, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	_, _ = v.w.Write(text)
	return nil
}

// health reports whether Redis can be read, and nothing else: it needs no user.
func (d *Dashboard) health(v *visit) error {
	v.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := d.status(v.ctx); err != nil {
		v.w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = v.w.Write([]byte("redis does not answer\n"))
		return nil //nolint:nilerr // this is the answer
	}
	_, _ = v.w.Write([]byte("ok\n"))
	return nil
}

func (d *Dashboard) metrics(v *visit) error {
	if d.cfg.Metrics == nil {
		return fail(http.StatusNotFound, "There is no such page.")
	}
	d.cfg.Metrics.ServeHTTP(v.w, v.r)
	return nil
}

// reset asks before the counters are set to zero.
func (d *Dashboard) reset(v *visit) error {
	return d.show(v, "reset", page{Title: "Reset the counters", Nav: "./"})
}

func (d *Dashboard) resetCounters(v *visit) error {
	act := Act{Name: "reset"}
	if v.form.Get("do") != act.Name {
		v.redirect("reset")
		return nil
	}
	return d.perform(v, act, "./", func() (flash, []any, error) {
		err := d.inspector.ResetCounters(v.ctx, inspect.CounterProcessed, inspect.CounterFailed, inspect.CounterDuplicates)
		return flash{Text: "The counters are zero. The counts of each day were kept."}, nil, err
	})
}
