package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

// A fieldTree is what a contract says of an object: its fields, and of each what its objects have. A map has
// the tree nil, and any other value an empty one.
type fieldTree map[string]fieldTree

var comment = regexp.MustCompile(`\([^)]*\)`)

// parseFields reads contract.fields.
func parseFields(t *testing.T, text string) fieldTree {
	t.Helper()
	words := regexp.MustCompile(`[a-z0-9_]+|[{}[\]:]`).FindAllString(comment.ReplaceAllString(text, ""), -1)
	var object func() fieldTree
	object = func() fieldTree {
		fields, last := fieldTree{}, ""
		for len(words) > 0 {
			word := words[0]
			words = words[1:]
			switch {
			case word == "}":
				return fields
			case word == "[" && words[0] != "{": // the elements are no objects
				require.Equal(t, "]", words[1], text)
				words = words[2:]
			case word == "[" || word == "]":
			case word == "{" && words[1] == ":":
				fields[last], words = nil, words[4:]
			case word == "{":
				fields[last] = object()
			default:
				fields[word], last = fieldTree{}, word
			}
		}
		return fields
	}
	return object()
}

// fieldsOf returns what values of a type print; optional has the fields that may be left out.
func fieldsOf(of reflect.Type, optional map[string]bool) fieldTree {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8 || of.Kind() == reflect.Array {
		of = of.Elem()
	}
	switch {
	case of.Kind() == reflect.Map:
		return nil
	case of.Kind() != reflect.Struct || of.Implements(reflect.TypeFor[json.Marshaler]()):
		return fieldTree{}
	}
	fields := fieldTree{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			maps.Copy(fields, fieldsOf(field.Type, optional))
		case field.IsExported() && name != "-":
			fields[name] = fieldsOf(field.Type, map[string]bool{})
			optional[name] = strings.Contains(options, "omit")
		}
	}
	return fields
}

// requirePrinted compares an object of JSON with the fields that it may have.
func requirePrinted(t *testing.T, value any, may fieldTree, where string) {
	t.Helper()
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			requirePrinted(t, element, may, where)
		}
	case map[string]any:
		if len(may) == 0 { // a map, or JSON of the user's own
			return
		}
		for name, inner := range v {
			require.Contains(t, may, name, where)
			requirePrinted(t, inner, may[name], where+" "+name)
		}
	}
}

// printedBy are the types that commands print.
var printedBy = map[string]reflect.Type{
	"status": reflect.TypeFor[inspect.FleetStatus](), "find": reflect.TypeFor[inspect.ShardFound](), "cancel": reflect.TypeFor[inspect.ShardCancellation](),
	"dead": reflect.TypeFor[inspect.Entry](), "dead find": reflect.TypeFor[inspect.Entry](), "move": reflect.TypeFor[inspect.ActCounts](),
	"return": reflect.TypeFor[inspect.Returned](), "queues": reflect.TypeFor[inspect.Queue](), "queues history": reflect.TypeFor[inspect.Sample](), "processes": reflect.TypeFor[inspect.Process](),
	"locks": reflect.TypeFor[inspect.UniqueLock](), "locks find": reflect.TypeFor[inspect.UniqueLock](), "classes": reflect.TypeFor[inspect.Classes](),
	"classes list": reflect.TypeFor[inspect.ClassRule](),
	"batches":      reflect.TypeFor[inspect.Batch](), "batches show": reflect.TypeFor[inspect.Batch](),
	"batches check": reflect.TypeFor[inspect.BatchCheck](),
	"limits":        reflect.TypeFor[inspect.Limit](), "limits show": reflect.TypeFor[inspect.LimitDetails](), "limits check": reflect.TypeFor[inspect.LimitCheck](),
	"periodic": reflect.TypeFor[inspect.Periodic](), "periodic run": reflect.TypeFor[inspect.PeriodicRun](),
	"periodic history": reflect.TypeFor[inspect.PeriodicRun](), "check": reflect.TypeFor[checked](), "push": reflect.TypeFor[lineReceipt](),
	"demo": reflect.TypeFor[report](), "version": nil, // a map
}

func TestContractsHaveExactlyTheFieldsThatArePrinted(t *testing.T) {
	t.Parallel()
	for _, c := range contracts {
		of, known := printedBy[c.commands[0]]
		require.Equal(t, c.json != "", known, c.commands)
		if of != nil {
			require.Equal(t, fieldsOf(of, map[string]bool{}), parseFields(t, c.fields), c.commands)
		}
	}
}

func TestEveryCommandHasAContract(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.HasParent() && !cmd.Hidden {
			c, ok := contractOf(cmd)
			require.True(t, ok, cmd.CommandPath())
			used[c.commands[0]] = true
			flag := cmd.Flags().Lookup("json")
			require.Equal(t, c.json != "", flag != nil, cmd.CommandPath())
			if flag != nil {
				require.Equal(t, "print "+c.json, flag.Usage)
			}
			require.Contains(t, c.exits, exitOK, cmd.CommandPath())
			for status := range c.exits {
				name := fmt.Sprint(status)
				if status == exitSignal {
					name = "130 or 143"
				}
				require.Contains(t, rootHelp, "\n  "+name+"  ", "the root's help explains it")
			}
			require.Equal(t, 1, strings.Count(cmd.Long, "\nExit status: "), cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot())
	require.Len(t, used, len(contracts), "and every contract a command")
}

func TestHelpShowsTheContract(t *testing.T) {
	t.Parallel()
	help := invoke("", "dead", "retry", "--help").out
	require.Contains(t, help, "With --json it prints one JSON object, with these stable fields:\n  moved, gone, refused,")
	exits := strings.Join(strings.Fields(help[strings.Index(help, "Exit status:"):strings.Index(help, "\n\nUsage:")]), " ")
	require.Equal(t, "Exit status: 0 if it was done, also if nothing matched --class, --unreadable or --all; 1 if Redis cannot be reached or "+
		"some jobs could not be changed; 2 for a wrong command line; 4 if a job that you named is not there, or not any more; "+
		"130 or 143 if INT or TERM ended it.", exits)
}

// Every command with --json is run, and prints no field that its contract does not have, and all that every
// object of its type has.
func TestCommandsPrintTheFieldsOfTheirContracts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.consumer("mail")
	keys := lua.NewKeys(h.prefix)
	run := fmt.Sprintf(`{"queue":"mail","run_at":1700000000,"payload":%q}`, deadJob("A", "runs"))
	h.do("HSET", keys.Work("ruby:1"), "t1", run)
	figures := lua.ClassFigures{Class: "A", Processed: 2, Failed: 1, Time: time.Second}
	figures.Runs[8], figures.Waits[3] = 1, 2
	redis, err := goredisdriver.Open(h.server.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, redis.Close()) }()
	require.NoError(t, redis.Do(t.Context(), keys.AddFigures([]lua.ClassFigures{figures}, time.Now()))[0].Err)
	for n, set := range []string{"retry", "schedule", "dead"} {
		for i := range 3 {
			h.do("ZADD", h.key(set), "1700000000", deadJob("A", fmt.Sprint(set, i)), fmt.Sprint(1700000001+n), fmt.Sprint("garbage ", i))
		}
	}
	require.Zero(t, h.invoke("", "push", "A", "7", "-q", "mail", "--jid", "one", "--unique", "until_executed").code)
	require.Zero(t, h.invoke("", "periodic", "add", "nightly", "0 3 * * *", "Report", "-q", "reports").code)
	require.Zero(t, h.invoke("", "periodic", "run", "nightly").code)
	now := fmt.Sprint(time.Now().Unix())
	h.do("ZADD", h.key("belay:samples"), now, now+` {"p":160,"f":6,"q":[["mail",8,1.5]]}`)
	h.do("ZADD", h.key("belay:completed"), now, "ended")
	h.do("HSET", h.key("it-ended"), lua.FieldState, "done", lua.FieldEndedAt, now+"000", lua.FieldBeganAt, now+"000", lua.FieldResult, "7", lua.FieldJob, deadJob("A", "ended"))
	h.do("HSET", h.key("belay:limits"), "webhooks", "5 window 100 60000 code 1700000000")
	h.do("HSET", h.key("belay:gates"), "webhooks:acme\nr", "1")
	h.wait("webhooks:acme", "mail", deadJob("A", "waits"))
	require.Zero(t, h.invoke("", "classes", "limit", "Report", "5").code)
	for _, line := range []string{
		"limits", "limits show webhooks --key acme", "limits check", "list waiting",
		"status", "find dead1", "find nowhere", "find --class A", "find --in running", "cancel nowhere", "dead", "retries", "scheduled",
		"dead find dead1", "queues find mail one", "queues", "queues list mail", "processes", "locks", "locks find A 7", "classes", "classes list",
		"periodic", "periodic list", "periodic run nightly", "periodic history nightly", "queues history", "list completed", "check", "version", "push A 8 -q mail",
		"push A 7 -q mail --jid two --unique until_executed", "dead retry dead1", "retries kill --class A --yes", "scheduled delete --all --yes",
		"dead clear --yes", "queues move mail other", "move --from other --to mail", "queues delete mail one",
	} {
		args := append(strings.Fields(line), "--json")
		cmd, _, err := newRoot().Find(args)
		require.NoError(t, err)
		c, _ := contractOf(cmd)
		answer := h.invoke("", args...)
		require.NotEmpty(t, answer.out, "%s: %s", line, answer.errs)
		if answer.code != exitOK {
			require.Contains(t, c.exits, answer.code, "%s: %s", line, answer.errs)
		}
		may, optional := parseFields(t, c.fields), map[string]bool{}
		if of := printedBy[c.commands[0]]; of != nil {
			fieldsOf(of, optional)
		}
		for text := range bytes.Lines([]byte(answer.out)) {
			var object map[string]any
			require.NoError(t, json.Unmarshal(text, &object), line)
			requirePrinted(t, object, may, line)
			for name := range may {
				if !optional[name] {
					require.Contains(t, object, name, "%s: %s", line, slices.Sorted(maps.Keys(object)))
				}
			}
		}
	}
}
