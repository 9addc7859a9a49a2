package verdict_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/verdict"
)

// hundred is a job of a hundred items, of which a first run did fifty in five seconds. Saves are a second apart.
func hundred() (s *story, run string) {
	s = newStory("a", "b").spec("T", history.Spec{Items: 100, Retries: -1}).push(0, "T")
	s.facts.Save = time.Second
	return s, s.goesOver(1, 6, "a", 0, 50)
}

// ends is the run that does the rest of the hundred.
func (s *story) ends(from float64, cursor int, counts ...seen) {
	s.finish(from+5.1, s.goesOver(from, from+5, "b", cursor, 100-cursor, counts...), history.OK)
}

func (s *story) killed(run string) *story { return s.kill(6.01, s.of(run).Proc) }

func TestItems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule  verdict.Rule // none: lawful
		story func(s *story, run string)
	}{
		"after a stop": {"", func(s *story, run string) {
			s.finish(6.01, run, history.Interrupted).leave(5.9, 6.1, "a").ends(7, 50)
		}},
		"after a stop, an item again": {verdict.Repeated, func(s *story, run string) {
			s.finish(6.01, run, history.Interrupted).leave(5.9, 6.1, "a").ends(7, 49)
		}},
		"after a stop that was not recorded, an item again": {"", func(s *story, run string) {
			s.finish(6.01, run, history.Interrupted).kill(6.02, "a").ends(15, 49, seen{interrupted: 1})
		}},
		"after a stop that ended its context, an item again": {"", func(s *story, run string) {
			s.cancel(5.95, run, "shutdown").finish(6.01, run, history.Stopped).leave(4, 6.1, "a").ends(7, 49)
		}},
		"after a failure": {"", func(s *story, run string) {
			s.finish(6.01, run, history.Failed).ends(7, 50, seen{failures: 1})
		}},
		"after a failure, an item again": {verdict.Repeated, func(s *story, run string) {
			s.finish(6.01, run, history.Failed).ends(7, 49, seen{failures: 1})
		}},
		"after a kill, those of an interval again": {"", func(s *story, run string) {
			s.killed(run).ends(15, 39, seen{interrupted: 1})
		}},
		"after a kill, those of more than an interval again": {verdict.Repeated, func(s *story, run string) {
			s.killed(run).ends(15, 37, seen{interrupted: 1})
		}},
		"after a kill, those of more than an interval again, because of an outage": {"", func(s *story, run string) {
			s.fault(4, 5, "redis stop", "").killed(run).ends(20, 30, seen{interrupted: 1})
		}},
		"after two kills, what was done before the first one again": {verdict.Repeated, func(s *story, run string) {
			s.killed(run).launch(6, "c")
			s.hangs(15, "c", "T", seen{interrupted: 1}).kill(15.1, "c").ends(24, 10, seen{interrupted: 1})
		}},
		"an item is skipped within a run": {verdict.Skipped, func(s *story, run string) {
			changed := s.of(run)
			changed.Kind, changed.Item, changed.Spec = history.ItemDone, 52, nil
			s.add(6.005, changed).finish(6.01, run, history.Interrupted).leave(5.9, 6.1, "a").ends(7, 51)
		}},
		"an item is skipped between two": {verdict.Skipped, func(s *story, run string) {
			s.finish(6.01, run, history.Interrupted).leave(5.9, 6.1, "a").ends(7, 51)
		}},
		"an item is skipped at the end": {verdict.Skipped, func(s *story, run string) {
			s.finish(6.01, run, history.Interrupted).leave(5.9, 6.1, "a")
			s.finish(12, s.goesOver(7, 11, "b", 50, 49), history.OK)
		}},
		"the cursor goes back": {verdict.Repeated, func(s *story, run string) {
			s.killed(run).launch(6, "c")
			s.goesOver(15, 15.2, "c", 45, 2, seen{interrupted: 1})
			s.kill(15.3, "c").ends(24, 44, seen{interrupted: 1})
		}},
		"the cursor goes back for one that was frozen while it read it": {"", func(s *story, run string) {
			s.fault(6.01, 20, "stop", "a").ends(15, 45, seen{interrupted: 1})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, run := hundred()
			if test.story(s, run); test.rule != "" {
				requireBreach(t, test.rule, s)
				return
			}
			v := requireLawful(t, s)
			require.Equal(t, 1, v.Resumed)
			require.Equal(t, 100, v.Items-v.AgainItems)
		})
	}
}
