package dedup

import (
	"regexp"
	"strings"

	"github.com/belayq/belay/job"
)

var (
	// Belay writes a class and a jid side by side, behind the args; Ruby writes them on either side of the
	// args.
	namesTogether = regexp.MustCompile(`"class":("[^"\\]{1,255}"),"jid":("[^"\\]{1,255}")`)
	className     = regexp.MustCompile(`"class":("[^"\\]{1,255}")`)
	jidName       = regexp.MustCompile(`"jid":("[^"\\]{1,255}")`)
	lockObject    = regexp.MustCompile(`"` + FieldName + `":(\{[^{}]{1,512}\})`)
)

// ReadEnds guesses the class, the jid and the lock of a payload from its beginning and its end. The guess may
// be wrong: the text between may override them, or the ends may show part of an argument. A script frees a
// lock only for the job that holds it, so a wrong guess frees none. The job is nil if class or jid are not
// found; its args are not the payload's.
func ReadEnds(head, tail string) (*job.Job, Lock) {
	head, _, _ = strings.Cut(head, `"`+job.FieldThen+`":`) // next jobs have names of their own
	var class, jid string
	if found := namesTogether.FindAllStringSubmatch(tail, -1); found != nil {
		class, jid = found[len(found)-1][1], found[len(found)-1][2]
	} else {
		class, jid = first(className, head, tail), first(jidName, tail, head)
	}
	text := `{"class":` + class + `,"jid":` + jid + `,"args":[]}`
	if lock := first(lockObject, head, tail); lock != "" {
		text = text[:len(text)-1] + `,"` + FieldName + `":` + lock + "}"
	}
	parsed, err := job.Parse(text)
	if err != nil {
		return nil, Lock{}
	}
	lock, err := Read(parsed)
	if err != nil {
		return parsed, Lock{}
	}
	return parsed, lock
}

// first returns the first match in the texts.
func first(of *regexp.Regexp, texts ...string) string {
	for _, text := range texts {
		if found := of.FindStringSubmatch(text); found != nil {
			return found[1]
		}
	}
	return ""
}
