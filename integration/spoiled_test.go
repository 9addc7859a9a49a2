package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/belayq/belay/job"
)

// A spoiler draws what may be wrong with a payload from a seed.
type spoiler struct {
	*rand.Rand
	real         []string // the payloads that real programs wrote
	last, before string   // the ids of this job and of the one before it
}

// oddValues are what a field of an envelope does not expect.
var oddValues = []string{
	`null`, `true`, `false`, `0`, `-1`, `1`, `3`, `"3"`, `3.0`, `1e400`, `-1e400`, `99999999999999999999999`, `-0`, `0.1`,
	`""`, `"x"`, `"\u0000"`, `"\ud800"`, `"a\nb"`, `"é\u2028<&>"`, `[]`, `[1]`, `["x"]`, `[[]]`, `{}`, `{"a":1}`, `{"a":{"b":[]}}`,
	`1700000000`, `1.7e12`, `1700000000000`, `1700000000.5`, `-5`, `"1700000000.5"`,
}

// envelope are the fields whose odd values matter to Belay, to Ruby or to its pages. Those that end or hold back
// a job by rule (expiry, deadline, compressed) have tests of their own.
var envelope = []string{
	"class", "args", "jid", "queue", "retry", "retry_count", "retry_for", "retry_queue", "dead", "backtrace", "created_at", "enqueued_at",
	"failed_at", "retried_at", "error_message", "error_class", "error_backtrace", "tags", "cattr", "locale", "bid", "wrapped",
	"display_class", "at", "interrupted_count", "encrypt", "meta", "apartment", "unique_for",
}

// count is how many payloads of which a number was spoiled.
func (r *spoiler) payloads(count int) []string {
	seen := make(map[string]bool)
	var made []string
	for len(made) < count {
		text := r.spoil(r.fresh())
		for r.IntN(3) == 0 {
			text = r.spoil(text)
		}
		if !seen[text] {
			seen[text] = true
			made = append(made, text)
		}
	}
	return made
}

// hexJID is the id of a job as every client draws it.
var hexJID = regexp.MustCompile(`"jid":"([0-9a-f]{24})"`)

// fresh is a real payload with an id of its own.
func (r *spoiler) fresh() string {
	text := r.pick(r.real)
	was := hexJID.FindStringSubmatch(text)
	r.before, r.last = r.last, fmt.Sprintf("%016x%08x", r.Uint64(), r.Uint32())
	return strings.ReplaceAll(text, was[1], r.last)
}

func (r *spoiler) pick(from []string) string { return from[r.IntN(len(from))] }

// spoil does one thing to a payload.
func (r *spoiler) spoil(text string) string {
	at := func() int { return r.IntN(len(text) + 1) }
	if text == "" {
		return r.pick(oddValues)
	}
	switch r.IntN(20) {
	case 0: // a bit flipped
		i := r.IntN(len(text))
		return text[:i] + string([]byte{text[i] ^ 1<<r.IntN(8)}) + text[i+1:]
	case 1: // a byte replaced
		i := r.IntN(len(text))
		return text[:i] + string([]byte{byte(r.Uint32())}) + text[i+1:]
	case 2: // cut off
		return text[:r.IntN(len(text))]
	case 3: // a part cut out
		i, j := at(), at()
		return text[:min(i, j)] + text[max(i, j):]
	case 4: // bytes inserted
		i := at()
		return text[:i] + r.pick([]string{"\x00", "\xff\xfe", "\xc3", "\xed\xa0\x80", "{", "}", "]", `"`, `\`, ",", "\n", "é", "1", "  "}) + text[i:]
	case 5: // a part doubled
		i, j := at(), at()
		return text[:max(i, j)] + text[min(i, j):]
	case 6: // another thing than an object
		return r.pick(oddValues) + strings.Repeat(" ", r.IntN(50))
	case 7: // spaces, which change nothing
		return " " + strings.Replace(text, ",", " ,\n\t", 1+r.IntN(3)) + strings.Repeat(" ", r.IntN(50))
	}
	members, ok := membersOf(text)
	if !ok || len(members) == 0 {
		return text[:r.IntN(len(text))]
	}
	name := r.pick(envelope)
	switch r.IntN(9) {
	case 0: // a field removed
		name = r.pick(slices.Sorted(maps.Keys(members)))
		delete(members, name)
	case 1: // a field twice
		return strings.Replace(text, "{", fmt.Sprintf(`{%q:%s,`, name, r.pick(oddValues)), 1)
	case 2: // the same, and the other counts
		return text[:strings.LastIndexByte(text, '}')] + fmt.Sprintf(`,%q:%s}`, name, r.pick(oddValues))
	case 3: // deep
		depth := []int{50, 99, 101, 500, job.MaxDepth - 1, job.MaxDepth + 1, 5000}[r.IntN(7)]
		members[r.pick([]string{"args", "tags", "own"})] = strings.Repeat("[", depth) + strings.Repeat("]", depth)
	case 4: // another job's id
		members["jid"] = `"` + r.before + `"`
	case 5: // an unknown class or queue
		members["class"] = r.pick([]string{`"Unknown"`, `"emails.send"`, `"A::B::C"`, `"Fails"`, `"\u0000"`, `" "`, `"Ran\u0000"`})
	case 6:
		members["queue"] = r.pick([]string{`"elsewhere"`, `"queue:odd"`, `"é"`, `"a b"`, `"\u0001"`, `"` + strings.Repeat("q", 300) + `"`})
	case 7: // odd arguments
		members["args"] = "[" + r.pick(oddValues) + "," + r.pick(oddValues) + "]"
	default:
		members[name] = r.pick(oddValues)
	}
	return r.object(members)
}

// object writes members in any order.
func (r *spoiler) object(members map[string]string) string {
	names := slices.Sorted(maps.Keys(members))
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	parts := make([]string, len(names))
	for i, name := range names {
		key, _ := json.Marshal(name)
		parts[i] = string(key) + ":" + members[name]
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// membersOf are the members of an object, as the standard library reads them: the last of a name counts.
func membersOf(text string) (map[string]string, bool) {
	var read map[string]json.RawMessage
	if !utf8.ValidString(text) || json.Unmarshal([]byte(text), &read) != nil || read == nil {
		return nil, false
	}
	members := make(map[string]string, len(read))
	for name, value := range read {
		members[name] = string(value)
	}
	return members, true
}

var wholeNumber = regexp.MustCompile(`^-?\d+$`)

// runnable says whether a text is a job that must run: a JSON object, no deeper than Redis can read, with a class,
// an id, arguments, and no count that cannot be counted on. It does not ask Belay. The id is decoded.
func runnable(text string) (jid string, members map[string]string, ok bool) {
	members, ok = membersOf(text)
	if !ok || depthOf(text) > job.MaxDepth || len(text) > job.DefaultPayloadLimit {
		return "", nil, false
	}
	count, counted := members["retry_count"]
	ok = strings.HasPrefix(members["class"], `"`) && members["class"] != `""` && strings.HasPrefix(members["args"], "[") &&
		strings.HasPrefix(members["jid"], `"`) && (!counted || count == "null" || wholeNumber.MatchString(count))
	_ = json.Unmarshal([]byte(members["jid"]), &jid)
	return jid, members, ok
}

// depthOf is how deeply a JSON text nests.
func depthOf(text string) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// hugeNumber is one that Ruby reads as infinite, and cannot write.
var hugeNumber = regexp.MustCompile(`[eE]\+?\d{3}|\d{300}`)

// ranByRuby says whether Ruby's worker runs it, if it is given it: it does not read what is deep, cannot write
// the odd halves of a character and what is infinite, and knows few classes.
func ranByRuby(text string, members map[string]string) bool {
	return members["class"] == `"Ran"` && depthOf(text) < 100 && !hugeNumber.MatchString(text) && !strings.Contains(strings.ToLower(text), `\ud`)
}
