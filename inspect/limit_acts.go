package inspect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
)

// A LimitChange is what an operator changes of a limit's size. An empty field leaves that part as it is.
type LimitChange struct {
	// Concurrency is a number, or "none" for any number. With 0 no job starts.
	Concurrency string
	// Rate is how many jobs start in a time, such as 100/1m: starts, a slash and a duration. That many start in
	// any span of a minute, at most 1,000. With leaky:100/1m 100 start at once, and then one each hundredth of
	// a minute. "none" is any number.
	Rate string
}

// noLimit is the value of a LimitChange for no limit.
const noLimit = "none"

// ErrLimitChange is the error of SetLimit for a change that no limit can have, and of each act on a limit that
// is the rule of a class; it says why.
var ErrLimitChange = errors.New("the limit cannot be changed")

// SetLimit gives a limit a size of the operator's, which programs do not replace: it is in force from the next
// start of a job on, and until ResetLimit or RemoveLimit. Runs beyond a lower size go on. There need be no
// limit of that name. It returns the new size.
func (i *Inspector) SetLimit(ctx context.Context, name string, change LimitChange) (Limit, error) {
	size, err := i.changed(ctx, name, change)
	if err != nil {
		return Limit{}, err
	}
	if _, err := i.changeLimit(ctx, lua.LimitSet, name, size); err != nil {
		return Limit{}, err
	}
	return limitOf(lua.Limit{Name: name, Size: size, Source: lua.LimitOfOperator}), i.lookAt(ctx, name)
}

// PreviewLimit returns the size that SetLimit would give a limit, or SetLimit's error, and changes nothing.
func (i *Inspector) PreviewLimit(ctx context.Context, name string, change LimitChange) (Limit, error) {
	size, err := i.changed(ctx, name, change)
	if err != nil {
		return Limit{}, err
	}
	return limitOf(lua.Limit{Name: name, Size: size, Source: lua.LimitOfOperator}), nil
}

// changed returns the size of a limit with a change.
func (i *Inspector) changed(ctx context.Context, name string, change LimitChange) (size lua.Size, err error) {
	if err := CheckChangeable(name); err != nil {
		return size, err
	}
	reply := i.driver.Do(ctx, driver.Command("HGET", i.keys.Limits(), name))[0]
	if reply.Err != nil {
		return size, fmt.Errorf("read the limit %s: %w", name, reply.Err)
	}
	if text, _ := reply.Value.(string); text != "" {
		if stored, err := lua.ParseLimit(name, text); err == nil { // one that is unreadable is replaced
			size = stored.Size
		}
	}
	if size, err = change.of(name, size); err != nil {
		return size, fmt.Errorf("%w: %w", ErrLimitChange, err)
	}
	return size, nil
}

// of returns the size with the change.
func (c LimitChange) of(name string, size lua.Size) (lua.Size, error) {
	if c == (LimitChange{}) {
		return size, errors.New("give a concurrency or a rate")
	}
	switch c.Concurrency {
	case "":
	case noLimit:
		size.Concurrency, size.Paused = 0, false
	default:
		n, err := strconv.Atoi(c.Concurrency)
		if err != nil || n < 0 {
			return size, fmt.Errorf("the concurrency %.40q: it must be a number, or %s", c.Concurrency, noLimit)
		}
		size.Concurrency, size.Paused = n, n == 0
	}
	rate := limit.RateOf(size)
	if c.Rate == noLimit {
		rate = limit.Rate{}
	} else if c.Rate != "" {
		var err error
		if rate, err = limit.ParseRate(c.Rate); err != nil {
			return size, err
		}
	}
	l := limit.Limit{Name: name, Concurrency: size.Concurrency, Rate: rate}
	checked := l
	if size.Concurrency == 0 && rate.None() {
		checked.Concurrency = 1 // an operator may lift a limit, or let nothing start
	}
	if err := checked.Check(); err != nil {
		return size, err
	}
	paused := size.Paused
	size = l.Size()
	size.Paused = paused
	return size, nil
}

// ResetLimit gives a limit that SetLimit has changed the size of the programs that declare it, which they
// register within half a minute; until then the operator's is in force. found is false if there is no size.
func (i *Inspector) ResetLimit(ctx context.Context, name string) (found bool, err error) {
	word, err := i.changeLimit(ctx, lua.LimitReset, name, lua.Size{})
	return err == nil && word != lua.LimitUnknown, err
}

// RemoveLimit removes the size of a limit. Its waiting jobs go back to their queues. A program that declares
// the limit stores its own size again, within half a minute. found is false if there is no size.
func (i *Inspector) RemoveLimit(ctx context.Context, name string) (found bool, err error) {
	word, err := i.changeLimit(ctx, lua.LimitRemove, name, lua.Size{})
	if err == nil {
		err = i.lookAt(ctx, name)
	}
	return err == nil && word == lua.LimitRemoved, err
}

// CheckChangeable returns the ErrLimitChange of each act on a limit that is the rule of a class; nil for another
// limit.
func CheckChangeable(limit string) error {
	if class, rule := lua.ClassOfLimit(limit); rule {
		return fmt.Errorf("%w: it is the rule of the class %s, which belay classes changes", ErrLimitChange, class)
	}
	return nil
}

func (i *Inspector) changeLimit(ctx context.Context, act lua.LimitAct, name string, size lua.Size) (lua.LimitWord, error) {
	if err := CheckChangeable(name); err != nil {
		return "", err
	}
	words, err := i.keys.ChangeLimits(act, []lua.LimitChange{{Name: name, Size: size}}).Do(ctx, i.driver)
	if err != nil {
		return "", fmt.Errorf("%s the limit %s: %w", act, name, err)
	}
	return words[0], nil
}

// lookAt lets the poller look at once at the gates of a limit that have waiting jobs. It would anyway, within
// lua.MaxLook.
func (i *Inspector) lookAt(ctx context.Context, name string) error {
	gates, err := i.waitingGates(ctx)
	if err != nil {
		return err
	}
	now, err := i.Now(ctx)
	if err != nil {
		return err
	}
	words := []string{"ZADD", i.keys.Waiting(), "XX"}
	for _, gate := range gates {
		if strings.HasPrefix(gate, name+":") && len(words) < 2*maxShown {
			words = append(words, strconv.FormatInt(now.Unix(), 10), gate)
		}
	}
	if len(words) == 3 {
		return nil
	}
	if reply := i.driver.Do(ctx, driver.Command(words...))[0]; reply.Err != nil {
		return fmt.Errorf("look at the gates of %s: %w", name, reply.Err)
	}
	return nil
}
