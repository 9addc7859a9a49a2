package lua

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

var classRuleScript = load("class_rule")

// MaxClassRules bounds the rules of classes. Every process reads all of them, and keeps them in memory.
const MaxClassRules = 1_000

// A ClassRule is what an operator wants of the jobs of a class, whatever their program declares.
type ClassRule struct {
	Class string
	// Drop ends its jobs before they start, as cancelled.
	Drop bool
	// Concurrency is how many of its jobs run at once; with 0 none starts. It is 0 with Drop.
	Concurrency int
}

// The kinds of rules, as operators call them. RuleDrop and RuleLimit also begin the texts of rules in Redis,
// where a pause is the limit 0.
const (
	RulePause = "pause"
	RuleLimit = "limit"
	RuleDrop  = "drop"
)

// Kind returns the kind of the rule.
func (r ClassRule) Kind() string {
	switch {
	case r.Drop:
		return RuleDrop
	case r.Concurrency == 0:
		return RulePause
	}
	return RuleLimit
}

// String returns the rule as Redis has it.
func (r ClassRule) String() string {
	if r.Drop {
		return RuleDrop
	}
	return RuleLimit + " " + strconv.Itoa(r.Concurrency)
}

// Words returns the rule as operators give it.
func (r ClassRule) Words() string {
	if kind := r.Kind(); kind != RuleLimit {
		return kind
	}
	return r.String()
}

// ParseClassRule reads the value of a field of Keys.Classes.
func ParseClassRule(class, text string) (ClassRule, error) {
	rule := ClassRule{Class: class, Drop: text == RuleDrop}
	if rule.Drop {
		return rule, nil
	}
	most, limits := strings.CutPrefix(text, RuleLimit+" ")
	n, err := strconv.Atoi(most)
	if !limits || err != nil || n < 0 {
		return rule, fmt.Errorf("the rule of the class %.80q is unreadable: %.80q", class, text)
	}
	rule.Concurrency = n
	return rule, nil
}

// classLimit begins the names of the limits of rules. No other limit's name has a dot.
const classLimit = "class."

// Gate returns the gate of the class' jobs while it has a rule. The gate has no size of the program, only the
// one that SetClassRule stores. The gate of a class whose jobs are dropped lets all of them start, as long as
// the rule is there: it says that the process will drop them. The class is escaped, because the name of a limit
// has no colon.
func (r ClassRule) Gate() Gate {
	return Gate{Name: classLimit + url.QueryEscape(r.Class) + ":", Size: Size{Drops: r.Drop}}
}

// ClassOfLimit returns the class whose rule a limit is; ok is false for another limit.
func ClassOfLimit(name string) (class string, ok bool) {
	escaped, ok := strings.CutPrefix(name, classLimit)
	class, err := url.QueryUnescape(escaped)
	return class, ok && err == nil
}

// A ClassRuleWord is the result of a change of a rule.
type ClassRuleWord string

// The results.
const (
	ClassRuleStored  ClassRuleWord = "stored"
	ClassRuleSame    ClassRuleWord = "same" // the rule is as it was
	ClassRuleRemoved ClassRuleWord = "removed"
	ClassRuleUnknown ClassRuleWord = "unknown" // there was none to remove
)

// SetClassRule stores the rule of a class. Processes know it with their next heartbeat: see ClassRules. Redis
// refuses more than MaxClassRules with FullCode.
func (k Keys) SetClassRule(rule ClassRule) Ask[ClassRuleWord] {
	size := Size{Concurrency: rule.Concurrency, Paused: rule.Concurrency == 0, Drops: rule.Drop}
	return k.classRule(rule, rule.String(), size.String())
}

// RemoveClassRule removes the rule of a class. The poller brings jobs that wait because of it back to their
// queues.
func (k Keys) RemoveClassRule(class string) Ask[ClassRuleWord] {
	return k.classRule(ClassRule{Class: class}, "", "")
}

func (k Keys) classRule(rule ClassRule, text, size string) Ask[ClassRuleWord] {
	args := []string{rule.Class, text, rule.Gate().Name, size, strconv.Itoa(MaxClassRules), strconv.FormatInt(KeepMarks.Microseconds(), 10)}
	return asking(classRuleScript, []string{k.Classes(), k.Limits(), k.Waiting(), k.Cancelled()}, args, func(r reader) (ClassRuleWord, error) {
		return ClassRuleWord(r.text()), r.end()
	})
}
