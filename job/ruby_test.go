package job_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// asRuby returns each text as Ruby writes it after reading it, as Sidekiq's pages do to find a job.
func asRuby(t *testing.T, texts []string) []string {
	t.Helper()
	ruby, err := exec.LookPath("ruby")
	require.NoError(t, err, "Ruby is needed, as for the tests with Sidekiq: apt-get install ruby-sidekiq")
	command := exec.CommandContext(t.Context(), ruby, "-Ku", "-rjson", "-e", `
		STDIN.set_encoding("UTF-8"); STDOUT.set_encoding("UTF-8")
		STDIN.each_line(chomp: true) { |line| puts(begin JSON.generate(JSON.parse(line)) rescue "#{$!.class}: #{$!.message.inspect}" end) }`)
	command.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n")
	output, err := command.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
	require.Len(t, lines, len(texts))
	return lines
}

// A draw generates values and texts, the same ones in every run.
type draw struct{ *rand.Rand }

func (d draw) float() float64 {
	switch d.IntN(4) {
	case 0: // any bits
		for {
			if f := math.Float64frombits(d.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
				return f
			}
		}
	case 1: // whole, around where the exponent begins
		return math.Trunc(d.NormFloat64() * math.Pow10(d.IntN(24)))
	case 2: // a few digits, around where it begins for small ones
		return float64(d.IntN(2000)-1000) * math.Pow10(-d.IntN(10))
	}
	return []float64{0, math.Copysign(0, -1), 1e15, 1e15 - 0.5, 1e16, 1e21, 1e22, 1e-4, 9.999e-5, 1e-7, 5e-324, math.MaxFloat64, 1 << 53}[d.IntN(13)]
}

func (d draw) text() string {
	var s strings.Builder
	for range d.IntN(8) {
		switch d.IntN(4) {
		case 0:
			s.WriteByte(byte(d.IntN(0x80)))
		case 1:
			s.WriteString([]string{"\u2028", "\u2029", "\ufffd", "\ufeff", "<", ">", "&", "/", `\`, `"`, "\x7f", "\u0085"}[d.IntN(12)])
		default:
			s.WriteRune(rune(d.IntN(0x110000))) // half a pair becomes U+FFFD here
		}
	}
	return s.String()
}

type inner struct {
	F float64            `json:"f"`
	G float32            `json:"g,omitempty"`
	P *float64           `json:"p"`
	L []float64          `json:"<l>"`
	M map[string]float32 `json:"m,omitempty"`
	I map[int]float64    `json:"i"`
	S string
	Q float64 `json:",string"`
}

// Middle is embedded.
type Middle struct {
	Whole float64
	Any   any
}

type outer struct {
	Middle
	*inner
	Sub  inner `json:"sub"`
	Arr  [2]inner
	Raw  json.RawMessage
	Num  json.Number
	When time.Time
	Own  verbatim
}

func (d draw) inner() inner {
	f := d.float()
	return inner{f, float32(d.IntN(100)) / 4, &f, []float64{d.float(), d.float()}, map[string]float32{d.text(): 2}, map[int]float64{d.Int(): d.float()}, d.text(), f}
}

func (d draw) value(depth int) any {
	switch n := d.IntN(10); {
	case n == 0:
		return d.float()
	case n == 1:
		return float32(d.NormFloat64() * math.Pow10(d.IntN(40)-20))
	case n == 2:
		return d.text()
	case n == 3:
		return []any{nil, true, false, d.Int64(), d.Uint64(), -7}[d.IntN(6)]
	case depth > 3:
		return json.RawMessage(d.spelling(3))
	case n < 6:
		return []any{d.value(depth + 1), d.value(depth + 1)}
	case n < 8:
		return map[string]any{d.text(): d.value(depth + 1), d.text(): d.value(depth + 1)}
	}
	in := d.inner()
	return outer{
		Middle{float64(d.IntN(9)), d.value(depth + 1)}, &in, d.inner(), [2]inner{}, json.RawMessage(d.spelling(2)), json.Number(d.number()),
		time.Unix(d.Int64N(4e9), d.Int64N(1e9)), verbatim(d.spelling(2)),
	}
}

// spelling returns JSON in a form that another program may write.
func (d draw) spelling(depth int) string {
	space := []string{"", "", " ", "\t "}[d.IntN(4)]
	switch n := d.IntN(8); {
	case n < 2 || depth == 0 && n > 3:
		return d.number()
	case n < 4:
		return d.quoted()
	case n < 6:
		return "[" + space + d.spelling(depth-1) + space + "," + d.spelling(depth-1) + "]"
	case n == 6:
		return "{" + space + `"a"` + space + ":" + d.spelling(depth-1) + `,"\u0061":` + d.spelling(depth-1) + "," + d.quoted() + ":1.50}"
	}
	return []string{"[]", "{ }", "[ ]", "null", " true", "false "}[d.IntN(6)]
}

func (d draw) number() string {
	text := strconv.Itoa(d.IntN(2000) - 1000)
	switch d.IntN(6) {
	case 0:
		return "-1" + strconv.FormatUint(d.Uint64(), 10) + strconv.FormatUint(d.Uint64(), 10)
	case 1:
		text += "." + strconv.FormatUint(d.Uint64(), 10)[:1+d.IntN(12)] + "00"
	case 2:
		text += "." + strconv.FormatUint(d.Uint64(), 10) + strconv.FormatUint(d.Uint64(), 10)
	case 3:
		return []string{"-0", "-0.0", "0e5", "1E5", "1e+21", "1e-7", "1.50", "1e-400", "-1e-400", "100000000000000000000.0"}[d.IntN(10)]
	}
	if d.IntN(2) == 0 {
		text += []string{"e", "E", "e+", "E-"}[d.IntN(4)] + strconv.Itoa(d.IntN(290))
	}
	return text
}

func (d draw) quoted() string {
	var s strings.Builder
	s.WriteByte('"')
	for _, r := range d.text() {
		switch {
		case r > 0xffff:
			fmt.Fprintf(&s, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case r < ' ' || r == '"' || r == '\\' || d.IntN(2) == 0 && r != 0xfffd: // MarshalJSON writes it for a byte that is not UTF-8
			fmt.Fprintf(&s, `\u%04x`, r)
		default:
			s.WriteRune(r)
		}
	}
	return s.String() + []string{``, `\/`, `\b\f\n\r\t\"\\`}[d.IntN(3)] + `"`
}

// Ruby reads a payload of Belay and writes it with the same bytes. So a Ruby program that has read a job finds
// it in Redis.
func TestRubyWritesWhatBelayWrites(t *testing.T) {
	t.Parallel()
	d := draw{rand.New(rand.NewPCG(13, 3))}
	var written []string
	for n := range 4000 {
		value := d.value(0)
		args, err := job.MarshalArgs([]any{value, d.float()})
		require.NoError(t, err, "%#v", value)
		at := time.Unix(d.Int64N(4e9), d.Int64N(1e9))
		text := job.Draft{
			Class: "C::" + d.text(), Queue: d.text(), ArgsJSON: args, CreatedAt: at, EnqueuedAt: at.Add(time.Duration(d.IntN(1e9))),
			Unit: job.TimeUnit(n % 2), Extra: []job.Edit{{Name: "own" + d.text(), JSON: args}},
		}.Encode()
		j := parse(t, text)
		written = append(written, text, j.Patch(
			job.SetString("error_message", d.text()+"<&>\u2028\xff"), job.SetStamp("failed_at", at, job.Seconds), job.SetInt("retry_count", n),
			job.SetString("queue", d.text()), job.Remove("args")))
	}
	for i, line := range asRuby(t, written) {
		if i/2%2 == int(job.Millis) { // this test's Ruby may have an older json
			line = job.AsJSON216(line)
		}
		require.Equal(t, line, written[i])
	}
}

// JSON that comes from elsewhere, as by "belay push", is spelled as Ruby would spell it.
func TestRubySpellsAsBelayDoes(t *testing.T) {
	t.Parallel()
	d := draw{rand.New(rand.NewPCG(13, 4))}
	texts := []string{
		`["caf\u00e9"]`, `[1E5]`, `[1.50]`, `["\/"]`, `[1e-7,1e+21]`, `{"a":1,"b":2,"\u0061":{"c":1,"c":2,"c":{}}}`, `["\ufffd"]`, `[-0]`,
		`[0.1000000000000000055511151231257827,9007199254740993.0,123456789012345678901234567890]`, `{"a":{"x":[1,{"a":1,"a":2}],"x":[]},"a":{"y":1,"z":2,"y":3}}`,
	}
	for range 20000 {
		texts = append(texts, "["+d.spelling(4)+"]")
	}
	for i, line := range asRuby(t, texts) {
		got, err := job.Marshal(json.RawMessage(texts[i]))
		require.NoError(t, err, texts[i])
		require.Equal(t, line, got, "%s", texts[i])
		again, err := job.Marshal(json.RawMessage(got))
		require.NoError(t, err)
		require.Equal(t, got, again)
		if args, err := job.SpellArgs(texts[i]); texts[i][0] == '[' {
			require.NoError(t, err)
			require.Equal(t, got, args)
		}
	}
}

// What Belay adds to a failed job, and to that of a tick, must not keep Ruby from finding the job either.
func TestErrorsAndTicksAreSpelledAsRubySpellsThem(t *testing.T) {
	t.Parallel()
	const odd = "<a> & \u2028\u2029 \ufffd \"é\\\x01/"
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at := time.Date(2026, 7, 1, 3, 0, 0, 0, berlin)
	past := []job.PastError{{Attempt: 1, At: at.UTC(), Class: odd, Message: odd}, {Attempt: 2, At: at.Add(5 * time.Millisecond).UTC(), Class: "E"}}
	ticks := []job.Tick{{Name: odd, At: at}, {Name: odd}, {Name: "n", At: at, Manual: true}}
	edits := []job.Edit{job.SetPastErrors(past, 5)}
	for _, tick := range ticks {
		edits = append(edits, tick.Edit())
	}
	var texts []string
	for _, edit := range edits {
		texts = append(texts, parse(t, payload("")).Patch(edit))
	}
	require.Equal(t, texts, asRuby(t, texts))
	require.Equal(t, past, parse(t, texts[0]).PastErrors())
	for n, tick := range ticks {
		read, ok := parse(t, texts[n+1]).Tick()
		require.True(t, ok)
		require.True(t, tick.At.Equal(read.At))
		read.At = tick.At
		require.Equal(t, tick, read)
	}
	require.Equal(t, `{"name":"n","at":"2026-07-01T03:00:00+02:00","manual":true}`, ticks[2].Edit().JSON, "as other versions write it")
}
