package lua

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
)

var defineScript = load("define")

const (
	// MaxDefinitions is how many definitions of periodic jobs go in one round trip: 2 MiB of the largest ones.
	MaxDefinitions = 64
	// MaxDefinition is the maximum size of one definition in bytes.
	MaxDefinition = 32 << 10
)

// A Definition is a periodic job as it is stored. No script reads its Text.
type Definition struct {
	Name string
	// Digest identifies the text, and Schedule the part of it that says when the job is due. Neither has a
	// space.
	Digest, Schedule string
	Text             string
}

// A Registrar is the process that has definitions in its code. The zero Registrar is an operator.
type Registrar struct {
	Identity string
	// StartedAt is when its program started, by Redis' clock; the same at each registration.
	StartedAt time.Time
}

// The results of Define.
const (
	// DefineStored says that the definition is in force now and was not before.
	DefineStored = "stored"
	// DefineSame says that the definition was in force already.
	DefineSame = "same"
	// DefineKept says that another one is in force: that of a live process that started later, or an
	// operator's.
	DefineKept = "kept"
	// DefineDue says that nothing was stored: the schedule would change, and the old one may have a due tick,
	// which the caller fires first. It is no answer to a definition with the stored schedule.
	DefineDue = "due"
)

// Define registers the definitions of periodic jobs, and returns one word for each. The ticks of a new schedule
// count from now. The caller keeps within MaxItems and MaxBytes.
func (k Keys) Define(by Registrar, definitions []Definition) Ask[[]string] {
	args := append(make([]string, 0, 2+4*len(definitions)), oneLine(by.Identity), "0")
	if by.Identity != "" {
		args[1] = strconv.FormatInt(max(by.StartedAt.UnixMilli(), 0), 10)
	}
	for _, d := range definitions {
		args = append(args, d.Name, d.Digest, d.Schedule, d.Text)
	}
	keys := []string{k.Periodic(), k.PeriodicDefinitions(), k.PeriodicLast(), k.PeriodicSeen(), k.PeriodicUptime(), k.Alive()}
	return asking(defineScript, keys, args, readTexts)
}

// ReadDefinition reads a value of the hash PeriodicDefinitions: a definition and its Registrar.
func ReadDefinition(name, value string) (d Definition, by Registrar, err error) {
	head, text, ok := strings.Cut(value, "\n")
	words := strings.SplitN(head, " ", 4)
	if !ok || len(words) < 4 {
		return d, by, fmt.Errorf("the stored definition of %q is not one", name)
	}
	started, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return d, by, fmt.Errorf("the stored definition of %q is not one: %w", name, err)
	}
	return Definition{name, words[0], words[1], text}, Registrar{words[3], time.UnixMilli(started)}, nil
}

// A StoredDefinition is a periodic job as it is stored.
type StoredDefinition struct {
	Definition Definition
	By         Registrar
	// Last is its value in PeriodicLast; "" for none.
	Last string
}

// PeriodicStored reads the definitions and the last ticks of these periodic jobs, and Redis' time.
func (k Keys) PeriodicStored(names []string) []driver.Call {
	read := func(key string) driver.Call { return driver.Command(append([]string{"HMGET", key}, names...)...) }
	return []driver.Call{AskTime, read(k.PeriodicDefinitions()), read(k.PeriodicLast())}
}

// ReadPeriodicStored reads the replies to PeriodicStored. A definition that is missing or cannot be read has
// only its name.
func ReadPeriodicStored(names []string, replies []driver.Reply) (now time.Time, jobs []StoredDefinition, err error) {
	if now, err = TimeOf(replies[0]); err != nil {
		return now, nil, err
	}
	if err := cmp.Or(replies[1].Err, replies[2].Err); err != nil {
		return now, nil, err
	}
	jobs = make([]StoredDefinition, len(names))
	stored, last := readerOf(replies[1].Value), readerOf(replies[2].Value)
	for i, name := range names {
		definition, by, err := ReadDefinition(name, stored.textOrNil())
		if err != nil {
			definition = Definition{Name: name}
		}
		jobs[i] = StoredDefinition{definition, by, last.textOrNil()}
	}
	return now, jobs, cmp.Or(stored.end(), last.end())
}

// CountUptime adds to the fleet's uptime, and returns it in seconds.
func (k Keys) CountUptime(d time.Duration) driver.Call {
	return driver.Command("INCRBY", k.PeriodicUptime(), wholeSeconds(d))
}

// PutOffPeriodic moves the next tick of a periodic job, unless it is later or the job is paused.
func (k Keys) PutOffPeriodic(name string, at time.Time) driver.Call {
	return driver.Command("ZADD", k.Periodic(), "XX", "GT", NextTick(at), name)
}
