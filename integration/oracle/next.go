package oracle

import (
	"encoding/json"
	"slices"
	"strings"
)

// judgeNext holds that a next job is stored in the step in which the job that it follows ends, and that a job
// stores all of its next jobs or, if it is not done, none.
func (s *stride) judgeNext() {
	if s.base {
		return
	}
	for _, of := range s.touched {
		if of.named && of.edge.Move == Accepted && strings.Contains(of.text, `"belay_after"`) {
			s.judgeNextJob(of)
		}
		if of.named && of.edge.Move == Ended && strings.Contains(of.text, `"belay_then"`) {
			s.judgeItsNext(of)
		}
	}
}

func (s *stride) judgeNextJob(of *subject) {
	var after string
	_ = json.Unmarshal([]byte(valueOf(of.text, "belay_after")), &after)
	ended := func(other *subject) bool { return other.jid == after && other.edge.Move == Ended }
	if after != "" && !slices.ContainsFunc(s.touched, ended) {
		s.violate(of, Next, "it follows %s, which does not end in this step", after)
	}
}

func (s *stride) judgeItsNext(of *subject) {
	var next []struct {
		JID string `json:"jid"`
	}
	if json.Unmarshal([]byte(valueOf(of.text, "belay_then")), &next) != nil {
		return // a foreign field of that name
	}
	stored := 0
	for _, job := range next {
		is := func(other *subject) bool { return other.jid == job.JID && other.edge.Move == Accepted }
		if slices.ContainsFunc(s.touched, is) {
			stored++
		}
	}
	if stored != 0 && stored != len(next) {
		s.violate(of, Next, "it has ended, and %d of its %d next jobs are stored", stored, len(next))
	}
}
