package job

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// soundObject returns the scanner's result for a text; ok if the text is a valid object.
func soundObject(text string) (why fault, ok bool) {
	m := members{raw: text}
	for m.next() {
	}
	return m.why, m.why == sound
}

// depthOf returns how deeply valid JSON nests, by a simple count of brackets.
func depthOf(text string) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// isPayloadObject is the reference: encoding/json with our limits of UTF-8 and depth.
func isPayloadObject(text string) bool {
	return json.Valid([]byte(text)) && utf8.ValidString(text) && depthOf(text) <= MaxDepth &&
		strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{")
}

var scannerSeeds = []string{
	``, `{`, `}`, `{}`, ` { } `, `[]`, `null`, `"x"`, `123`, "\x00", `{}x`, `{},`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`,
	`{"a":1 "b":2}`, `{"a":[1,2,[3,{"b":null}],{}],"c":{"d":[]}}`, `{"a":[1,]}`, `{"a":[}]`, `{"a":{]}`, `{"a":[1}`,
	`{"a":-0.0e+1,"b":1E5,"c":-1}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":NaN}`,
	`{"a":true,"b":false,"c":null}`, `{"a":tru}`, `{"a":nul`, `{a:1}`, `{'a':1}`, `{"a":"\u00e9\ud83d\ude00\ud800\/"}`,
	`{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12`, `{"a":"\`, "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", "{\"\xc0\x80\":1}",
	"{\"a\":\"\u2028\x7f日本\"}", "\ufeff{}", `{"a":1}{"b":2}`, "{\"a\":1}\n", `{"a":{"b":1},}`, `{"a":[[[[]]]],"b":[{},{}]}`,
}

func TestScanner(t *testing.T) {
	t.Parallel()
	t.Run("accepts_exactly_the_objects_encoding_json_accepts", func(t *testing.T) {
		t.Parallel()
		for _, text := range scannerSeeds {
			why, ok := soundObject(text)
			require.Equal(t, isPayloadObject(text), ok, "%q: %d", text, why)
		}
	})
	t.Run("accepts_the_greatest_depth_and_not_one_more", func(t *testing.T) {
		t.Parallel()
		nested := func(depth int, open, closer string) string {
			return `{"a":` + strings.Repeat(open, depth-1) + strings.Repeat(closer, depth-1) + `}`
		}
		_, ok := soundObject(nested(MaxDepth, "[", "]"))
		require.True(t, ok)
		why, _ := soundObject(nested(MaxDepth+1, "[", "]"))
		require.Equal(t, tooDeep, why)
		why, _ = soundObject(`{"a":` + strings.Repeat(`{"a":`, MaxDepth))
		require.Equal(t, tooDeep, why)
		// What would overflow a stack, had the scanner one.
		why, _ = soundObject(`{"a":` + strings.Repeat("[", 5<<20))
		require.Equal(t, tooDeep, why)
	})
	t.Run("finds_every_single_broken_byte_of_a_payload", func(t *testing.T) {
		t.Parallel()
		payload := readFile(t, "sidekiq-7.3.json")
		for i := range len(payload) {
			for _, c := range []byte{0, '"', '\\', '{', ']', ',', ':', 'x', '0', 0xff} {
				text := payload[:i] + string([]byte{c}) + payload[i+1:]
				_, ok := soundObject(text)
				require.Equal(t, isPayloadObject(text), ok, text)
			}
			_, ok := soundObject(payload[:i])
			require.False(t, ok, payload[:i])
		}
	})
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return strings.TrimSuffix(string(text), "\n")
}

func FuzzParse(f *testing.F) {
	for _, text := range scannerSeeds {
		f.Add(text)
	}
	for _, name := range []string{"sidekiq-6.4.json", "sidekiq-7.3.json", "sidekiq-8.1.json"} {
		f.Add(readFile(f, name))
	}
	f.Add(`{"class":"C","jid":"","args":[ 1 , [2] ],"retry_count":null,"\u006aid":"x","created_at":1e400,"retry_for":-1e99}`)
	f.Fuzz(func(t *testing.T, text string) {
		why, ok := soundObject(text)
		require.Equal(t, isPayloadObject(text), ok, "fault %d", why)
		j, err := Parse(text)
		if err != nil {
			var unreadable *UnreadableError
			require.ErrorAs(t, err, &unreadable)
			return
		}
		require.True(t, ok)
		readAll(t, j)
	})
}

// readAll calls all readers of a job; none may panic or contradict encoding/json.
func readAll(t *testing.T, j *Job) {
	var whole map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(j.Raw()), &whole))
	var class, jid string
	require.NoError(t, json.Unmarshal(whole["class"], &class))
	require.NoError(t, json.Unmarshal(whole["jid"], &jid))
	require.Equal(t, class, j.Class())
	require.Equal(t, jid, j.JID())
	require.Equal(t, string(whole["args"]), j.ArgsJSON())
	var args []json.RawMessage
	require.NoError(t, json.Unmarshal(whole["args"], &args))
	require.Len(t, j.Args(), len(args))
	for i, arg := range j.Args() {
		require.Equal(t, string(args[i]), arg)
	}
	for name, want := range whole {
		if strings.ContainsRune(name, utf8.RuneError) {
			continue // half a surrogate pair reads as this; two such names may be one
		}
		got, ok := j.Field(name)
		require.True(t, ok, name)
		require.Equal(t, string(want), got, name)
	}
	j.Queue()
	j.RetryRule()
	j.RetryCount()
	j.RetryFor()
	j.RetryQueue()
	j.KeepDead()
	j.Backtrace()
	j.CreatedAt()
	j.EnqueuedAt()
	j.FailedAt()
	j.InterruptedCount()
	j.DisplayClass()
}

func BenchmarkParse(b *testing.B) {
	text := `{"retry":true,"queue":"default","args":[12345,"user@example.com"],"class":"Mail::Welcome",` +
		`"jid":"81a3bda6f6b71c4e32642ff8","created_at":1795240473.7967563,"enqueued_at":1795240473.7967691}`
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
