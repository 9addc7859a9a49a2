package oracle

import "time"

// abroad is the state of a job that a foreign program has taken out, in a step of its own, to put it
// elsewhere in another.
type abroad struct {
	from  Place
	since time.Time
}

// bounded reports whether the program must put it back soon: a poller does, a worker that runs it may be done
// with it.
func (a *abroad) bounded() bool { return a.from != Queue }

// emigrates notes that a foreign program took the job, if there may be one and its command is one that they
// use.
func (c *crossing) emigrates(from Place) bool {
	if c.k.foreign == nil {
		return false
	}
	switch {
	case from.sorted() && c.out.verb != "DEL" && c.out.verb != "UNLINK":
	case from == Queue && (c.out.verb == "RPOP" || c.out.verb == "LPOP"):
	default:
		return false
	}
	c.of.abroad = &abroad{from: from, since: c.At}
	c.note(c.of, Edge{from, Abroad, Emigrated})
	return true
}

// returns notes that a foreign program put the job somewhere. What it did to its bytes is its own affair.
func (c *crossing) returns(to Place) {
	a := c.of.abroad
	c.of.abroad = nil
	if took := c.At.Sub(a.since); a.bounded() && took > *c.k.foreign {
		c.fail(Lost, "it was nowhere for %v, between %s and %s", took, a.from, to)
	}
	if to != Queue && !to.sorted() {
		c.fail(IllegalEdge, "a foreign program put it into %s", to)
	}
	c.note(c.of, Edge{Abroad, to, Returned})
}

// closeBorders judges, at the end of the log, the jobs that have not come back.
func (k *keyspace) closeBorders(s *stride) {
	for _, of := range k.jobs {
		switch {
		case of.abroad == nil:
		case !of.abroad.bounded():
			k.report.Abroad++
		case k.allow[way{of.abroad.from, Nowhere}]:
			k.report.Deleted++
		default:
			k.report.Lost++
			s.violate(of, Lost, "taken out of %s at %s and never put anywhere", of.abroad.from, stamp(of.abroad.since))
		}
	}
}
