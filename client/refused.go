package client

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/belayq/belay/lua"
)

const (
	// refusalsEvery is the minimum time between two lines about refused pushes of one class. If one job is
	// pushed ten thousand times in a second, one line and a number are enough for a person.
	refusalsEvery = time.Second
	// maxClasses bounds the classes whose last line is remembered: a program that makes up class names must
	// not fill its own memory. Refusals of further classes are not logged.
	maxClasses = 1000
)

// refusals logs pushes that were refused as duplicates.
type refusals struct {
	to *slog.Logger

	mu sync.Mutex
	// classes has, for each class, the time of its last line and how many refusals were not logged since then.
	classes map[string]classLog
}

type classLog struct {
	at      time.Time
	omitted int
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{to: log, classes: make(map[string]classLog)}
}

// log logs which of the jobs of a push were refused. holders has the jid that holds the lock, or "" for jobs
// that were stored.
func (r *refusals) log(now time.Time, jobs []lua.NewJob, holders []string) {
	if !r.to.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	for i, holder := range holders {
		if holder == "" || jobs[i].Mark {
			continue
		}
		jid, class := jobs[i].Lock.Names()
		if omitted, due := r.due(now, class); due {
			r.to.Info("push refused: duplicate",
				"jid", jid, "class", class, "queue", jobs[i].Queue, "holder", holder, "digest", jobs[i].Lock.Digest, "left_out", omitted)
		}
	}
}

// due reports whether the class may have a line now, and how many refusals were not logged since its last one.
func (r *refusals) due(now time.Time, class string) (omitted int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.classes[class]
	if known && now.Sub(last.at) < refusalsEvery {
		r.classes[class] = classLog{last.at, last.omitted + 1}
		return 0, false
	}
	if !known && len(r.classes) >= maxClasses {
		maps.DeleteFunc(r.classes, func(_ string, t classLog) bool { return now.Sub(t.at) >= refusalsEvery })
		if len(r.classes) >= maxClasses {
			return 0, false
		}
	}
	r.classes[class] = classLog{at: now}
	return last.omitted, true
}
