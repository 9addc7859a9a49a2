package dedup_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// digest returns the digest of args in a fixed class and queue.
func digest(t require.TestingT, args string) string {
	d, err := dedup.Digest("C", "", []byte(args))
	require.NoError(t, err, "%.100q", args)
	require.Regexp(t, `^[0-9a-f]{32}$`, d)
	return d
}

func TestDigest(t *testing.T) {
	t.Parallel()
	t.Run("is_the_same_however_a_value_is_spelled", func(t *testing.T) {
		t.Parallel()
		for _, same := range [][]string{
			{`[]`, ` [ ] `, "\t[\r\n]"},
			{`[1]`, `[1.0]`, `[1e0]`, `[10e-1]`, `[0.1E+1]`, `[100.00e-02]`, `[1000e-3]`, `[1e-0]`, `[1e00000000000000000000]`},
			{`[0]`, `[-0]`, `[0.0]`, `[-0e5]`, `[0e-999999999999999999999]`, `[0.000E99999999999999999999]`},
			{`[1200]`, `[12e2]`, `[1.2e3]`, `[1200.0]`},
			{`[-0.5]`, `[-5e-1]`, `[-0.50]`},
			{`[1e999999999]`, `[10e999999998]`, `[0.1e1000000000]`},
			{`[1e-999999999]`, `[0.1e-999999998]`, `[10e-1000000000]`},
			{`[9007199254740993]`, `[9007199254740993.0]`, `[9.007199254740993e15]`},
			{`["é"]`, `["\u00e9"]`, `["\u00E9"]`},
			{`["😀"]`, `["\ud83d\ude00"]`, `["\uD83D\uDE00"]`},
			{`["/\b\f\n\r\t\"\\"]`, `["\/\u0008\u000c\u000a\u000d\u0009\u0022\u005c"]`},
			{`["\ufffd"]`, `["�"]`},
			{`[{"a":1,"b":2}]`, `[{"b":2,"a":1}]`, `[ { "b" : 2.0 , "\u0061" : 1 } ]`},
			{`[{"a":2}]`, `[{"a":1,"a":2}]`, `[{"\u0061":[{}],"a":2}]`, `[{"a":2,"a":3,"a":2}]`},
			{`[{"a":{"c":3,"d":4},"b":2}]`, `[{"b":2,"a":{"d":4,"c":3}}]`},
		} {
			for _, spelling := range same {
				require.Equal(t, digest(t, same[0]), digest(t, spelling), "%s and %s", same[0], spelling)
			}
		}
	})
	t.Run("tells_apart_what_a_handler_could", func(t *testing.T) {
		t.Parallel()
		seen := map[string]string{}
		for _, args := range []string{
			`null`, `true`, `false`, `0`, `1`, `""`, `"n"`, `"null"`, `"0"`, `"1"`, `{}`, `[]`, `[[]]`, `[{}]`, `[null]`, `[[],[]]`,
			`[[[]]]`, `[{},{}]`, `[1]`, `["1"]`, `[1,null]`, `[null,1]`, `[true]`, `["true"]`, `[-1]`, `[10]`, `[0.1]`, `[1e1000]`, `[1e-1000]`,
			`["a","b:c"]`, `["a:b","c"]`, `["a:b:c"]`, `["a,b"]`, `["a","b"]`, `["b","a"]`, `["ab"]`, `["a\",\"b"]`, `["as1:b"]`, `["a1:b"]`,
			`[["a"],"b"]`, `["a",["b"]]`, `[["a","b"]]`, `["1:a"]`, `["]["]`,
			`[9007199254740992]`, `[9007199254740993]`, `[9007199254740993.1]`, `[12345678901234567890]`, `[12345678901234567891]`,
			`[0.1000000000000000055511151231257827]`, `[1e400]`, `[1e401]`, `[-1e400]`, `[1e-400]`, `["1e400"]`,
			`["e\u0301"]`, `["é"]`, `["É"]`, `["\u0000"]`, `["\u0000\u0000"]`, `[" "]`, `["a "]`,
			`["\ud800"]`, `["\ud801"]`, `["\udc00"]`, `["\ud800\ud800"]`, `["\udc00\ud800"]`, `["\ud800\udc00"]`, `["\ufffd"]`, `["\ud800x"]`, `["\ud800\u0041"]`,
			`["\\ud800"]`,
			`{"":""}`, `{"a":null}`, `{"a":1}`, `{"a":"1"}`, `{"A":1}`, `{"a":{}}`, `{"a":[]}`, `{"a":{"b":1}}`, `{"a":1,"b":2}`, `{"a":2,"b":1}`,
			`{"ab":1}`, `{"b":{"a":1}}`, `{"\ud800":1}`, `{"\ufffd":1}`, `[["a",1]]`, `["a",1]`, `[{"a":1},{"b":2}]`, `[{"a":1,"b":2}]`,
		} {
			d := digest(t, args)
			require.NotContains(t, seen, d, "%s is %s", args, seen[d])
			seen[d] = args
		}
	})
	t.Run("tells_classes_and_queues_apart", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for _, c := range [][3]string{
			{"C", "", `[]`}, {"c", "", `[]`}, {"", "C", `[]`}, {"C", "C", `[]`}, {"C", "default", `[]`}, {"Cdefault", "", `[]`},
			{"C:", "", `[]`}, {"C", ":", `[]`}, {"C0:", "", `[]`}, {"C[", "", `[]`}, {"C\xff", "", `[]`}, {"C\xfe", "", `[]`},
		} {
			d, err := dedup.Digest(c[0], c[1], []byte(c[2]))
			require.NoError(t, err)
			require.False(t, seen[d], "%q", c)
			seen[d] = true
		}
	})
	t.Run("says_why_there_is_none", func(t *testing.T) {
		t.Parallel()
		long := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
		deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
		digest(t, long(job.MaxPayloadLimit))
		digest(t, deep(job.MaxDepth-1))
		for args, reason := range map[string]string{
			``: "not JSON", `[`: "not JSON", `[1] 2`: "not JSON", `[01]`: "not JSON", `[1.]`: "not JSON", `{"a"}`: "not JSON", "[\"\n\"]": "not JSON",
			`["\u12"]`: "not JSON", `[NaN]`: "not JSON", "[\"\xff\"]": "not valid UTF-8", "[\"\xed\xa0\x80\"]": "not valid UTF-8",
			`[1e1000000000]`: "power of ten", `[-1e-1000000000]`: "power of ten", `[10e999999999]`: "power of ten",
			`{"a":[1e9999999999999999999999]}`: "power of ten", `[1E-18446744073709551616]`: "power of ten", `[1e4294967296]`: "power of ten",
			long(job.MaxPayloadLimit + 1): "longer than", deep(job.MaxDepth): "nested deeper",
			strings.Repeat(`{"":`, job.MaxDepth) + `0` + strings.Repeat(`}`, job.MaxDepth): "nested deeper",
		} {
			d, err := dedup.Digest("C", "", []byte(args))
			require.ErrorContains(t, err, reason, "%.100q", args)
			require.Empty(t, d)
		}
	})
	t.Run("allows_what_fits_into_a_payload_and_no_more", func(t *testing.T) {
		t.Parallel()
		for depth, fits := range map[int]bool{job.MaxDepth - 1: true, job.MaxDepth: false} {
			args := strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth)
			_, digestErr := dedup.Digest("C", "", []byte(args))
			_, parseErr := job.Parse(`{"class":"C","jid":"j","args":` + args + `}`)
			require.Equal(t, fits, digestErr == nil)
			require.Equal(t, fits, parseErr == nil)
		}
	})
}

type vector struct{ Class, Queue, Args, Digest string }

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var all []vector
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all)
	return all
}

// A digest never changes: a version must find the jobs and locks of earlier versions.
func TestDigestStaysAsItWas(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		got, err := dedup.Digest(v.Class, v.Queue, []byte(v.Args))
		require.NoError(t, err)
		require.Equal(t, v.Digest, got, "%s of %s %q", v.Args, v.Class, v.Queue)
	}
}

// The documented form is enough to compute digests in another language, as belay.rb does.
func TestDigestInRuby(t *testing.T) {
	t.Parallel()
	ruby, err := exec.LookPath("ruby")
	require.NoError(t, err, "Ruby is needed, as for the tests with Sidekiq: apt-get install ruby-sidekiq")
	input, err := os.Open("testdata/vectors.json")
	require.NoError(t, err)
	defer func() { _ = input.Close() }()
	command := exec.CommandContext(t.Context(), ruby, "-r", "../contrib/ruby/belay", "-e", `JSON.parse($stdin.read).each do |job|
		puts Belay.digest_of(job["class"], job["queue"], job["args"])
	end`)
	command.Stdin = input
	output, err := command.Output()
	require.NoError(t, err, "belay.rb needs Sidekiq: apt-get install ruby-sidekiq")
	all, lines := vectors(t), strings.Fields(string(output))
	require.Len(t, lines, len(all))
	for i, v := range all {
		require.Equal(t, v.Digest, lines[i], v.Args)
	}
}

// The cost of a digest at the push of a unique job. The last two arguments have about the same length: nested
// objects cost no more than text.
func BenchmarkDigest(b *testing.B) {
	const depth = job.MaxDepth - 2
	text := strings.Repeat("x", 1_000_000)
	for name, args := range map[string]string{
		"usual":  `[42,"short",{"locale":"en","at":1.5}]`,
		"flat":   `["` + text + `"]`,
		"nested": strings.Repeat(`{"b":`, depth) + `"` + text + `"` + strings.Repeat(`,"a":1}`, depth),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dedup.Digest("C", "", []byte(args)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
