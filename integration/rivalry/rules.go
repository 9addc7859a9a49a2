package rivalry

// judgeLife holds that what was accepted has ended, and that nothing else ran.
func (j *judge) judgeLife(l *life) {
	switch {
	case l.refused && len(l.runs) > 0:
		j.violate(Phantom, l, l.first(), "its push was refused, and it ran")
	case !l.pushed && l.mode != OnceMore:
		j.violate(Phantom, l, l.first(), "it ran, and nobody had pushed it")
	case !l.ended() && !j.Dead[l.jid]:
		j.violate(Lost, l, l.last(), "it was accepted, and started %d times, and has not ended", len(l.runs))
	}
}

// judgeUntilStart holds that nobody was accepted while one was known to wait for its start. One that waited again, because its
// process died before its handler said a word, may have freed its lock.
func (j *judge) judgeUntilStart(rivals []*life) {
	for _, a := range rivals {
		waits := span{a.sure(), a.first() - j.Slack}
		if !a.accepted || len(a.runs) == 0 || a.runs[0].interrupted > 0 || waits.from >= waits.to || j.troubled(waits) {
			continue
		}
		for _, b := range rivals {
			if b != a && b.accepted && b.push.from > waits.from && b.push.to < waits.to {
				j.violate(Company, b, b.push.to, "it was accepted while %s waited, from %v to %v", a.jid, waits.from, waits.to)
			}
		}
	}
}

// judgeUntilEnd holds that nobody was accepted, and that nobody started, while one was known not to have ended.
func (j *judge) judgeUntilEnd(rivals []*life) {
	for i, a := range rivals {
		for _, b := range rivals {
			if b != a && b.accepted && b.push.from > a.sure() && b.push.to < a.last() {
				j.violate(Company, b, b.push.to, "it was accepted while %s had not ended, from %v to %v", a.jid, a.sure(), a.last())
			}
		}
		if i+1 < len(rivals) && rivals[i+1].first() < a.last() {
			j.violate(Company, rivals[i+1], rivals[i+1].first(), "it started while %s had not ended, until %v", a.jid, a.last())
		}
	}
}

// judgeRefusal holds that the holder whom a push was told of may have had the lock meanwhile.
func (j *judge) judgeRefusal(r refusal) {
	d := r.of
	h := j.lives[r.holder]
	switch {
	case h == nil || h.refused || (!h.pushed && len(h.runs) == 0):
		j.violate(Leak, d, d.push.to, "it was refused for the sake of %s, which was never accepted", r.holder)
	case h.key != d.key:
		j.violate(Leak, d, d.push.to, "it was refused for the sake of %s, which is of another kind: %s", r.holder, h.key)
	case h.pushed && h.push.from > d.push.to:
		j.violate(Leak, d, d.push.to, "it was refused for the sake of %s, which was not pushed before %v", r.holder, h.push.from)
	case h.mode == UntilExecuting && h.first() < d.push.from:
		j.violate(Leak, d, d.push.to, "it was refused for the sake of %s, which had started at %v", r.holder, h.first())
	case h.mode != UntilExecuting && h.ended() && h.last()+j.Settling < d.push.from && !j.troubled(span{h.last(), d.push.from}):
		j.violate(Leak, d, d.push.to, "it was refused for the sake of %s, which had ended at %v", r.holder, h.last())
	}
}

// unheard says whether a push of this kind whose answer nobody read may have been refused in a stretch of time.
func (j *judge) unheard(key string, s span) bool {
	for _, l := range j.lives {
		if l.key == key && l.pushed && !l.accepted && !l.refused && len(l.runs) == 0 && l.push.to > s.from && l.push.from < s.to {
			return true
		}
	}
	return false
}

// judgeReruns holds which jobs were run once more. Locks go from one to the next without a gap, so that the run that follows a
// job is the next one that starts.
func (j *judge) judgeReruns(key string, rivals []*life) {
	for i, a := range rivals {
		if len(a.runs) == 0 {
			continue
		}
		promised, possible := false, false
		for _, r := range j.refusals {
			if r.holder != a.jid || r.of.key != key {
				continue
			}
			promised = promised || (r.of.push.from > a.first() && r.of.push.to < a.last())
			before := span{r.of.push.to, a.first()}
			possible = possible || r.of.push.to > a.first()-j.Slack || a.runs[0].interrupted > 0 || j.troubled(before)
		}
		follows := i+1 < len(rivals) && !rivals[i+1].pushed
		possible = possible || follows && j.unheard(key, span{a.first() - j.Slack, rivals[i+1].first()})
		switch {
		case promised:
			j.verdict.Promised++
		case !possible:
			j.verdict.Idle++
		}
		switch {
		case promised && !follows:
			j.violate(Again, a, a.last(), "others were refused while it ran, and it was not run once more")
		case follows && !possible:
			j.violate(Again, rivals[i+1], rivals[i+1].first(), "it ran for those who were refused for the sake of %s, and there are none", a.jid)
		}
		if follows {
			j.verdict.Reruns++
		}
	}
	if !rivals[0].pushed {
		j.violate(Again, rivals[0], rivals[0].first(), "it ran for others, and nobody ran before it")
	}
}
