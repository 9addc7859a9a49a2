package dedup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/dedup"
)

// reference is Digest by encoding/json and big.Rat. It is slow, computes only numbers of moderate size, and
// reads half a surrogate pair as U+FFFD.
func reference(class, queue string, args []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		panic(err)
	}
	sum := sha256.Sum256([]byte(netstring("belay unique v1") + netstring(class) + netstring(queue) + referenceValue(v)))
	return hex.EncodeToString(sum[:])[:32]
}

func netstring(s string) string { return fmt.Sprintf("%d:%s", len(s), s) }

func referenceValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "n"
	case bool:
		return strconv.FormatBool(v)[:1]
	case string:
		return "s" + netstring(v)
	case json.Number:
		return "d" + netstring(referenceNumber(v.String()))
	case []any:
		out := "["
		for _, element := range v {
			out += referenceValue(element)
		}
		return out + "]"
	case map[string]any:
		h := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(v)) {
			h.Write([]byte(netstring(name) + referenceValue(v[name])))
		}
		return "{" + string(h.Sum(nil))
	}
	panic(fmt.Sprintf("a %T", v))
}

// referenceNumber multiplies or divides by ten until the rest is an integer whose last digit is not 0.
func referenceNumber(literal string) string {
	r, ok := new(big.Rat).SetString(literal)
	if !ok {
		panic(literal)
	}
	if r.Sign() == 0 {
		return "0"
	}
	power, ten := 0, big.NewRat(10, 1)
	for ; !r.IsInt(); power-- {
		r.Mul(r, ten)
	}
	n, rest := new(big.Int).Set(r.Num()), new(big.Int)
	for quotient := new(big.Int); ; power++ {
		if quotient.QuoRem(n, ten.Num(), rest); rest.Sign() != 0 {
			return fmt.Sprintf("%de%d", n, power)
		}
		n.Set(quotient)
	}
}

// A node is a JSON value that can be spelled in many ways.
type node struct {
	word    string // null, true, false
	text    *string
	digits  string // of a number, the power of ten of the last being power
	power   int
	array   []node
	object  []pair
	isArray bool
}

type pair struct {
	name  string
	value node
}

// texts are short and have few different characters, so that values are often nearly equal.
var texts = rapid.StringOfN(rapid.SampledFrom([]rune("ab1:é\"\\/\n\x00😀e\u0301]{")), 0, 3, -1)

func nodes(depth int) *rapid.Generator[node] {
	return rapid.Custom(func(t *rapid.T) node {
		kinds := 3
		if depth > 0 {
			kinds = 5
		}
		switch rapid.IntRange(1, kinds).Draw(t, "kind") {
		case 1:
			return node{word: rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")}
		case 2:
			text := texts.Draw(t, "text")
			return node{text: &text}
		case 3:
			return node{digits: rapid.StringMatching(`-?(0|[1-9][0-9]{0,3}|900719925474099[0-9])`).Draw(t, "digits"),
				power: rapid.IntRange(-3, 3).Draw(t, "power")}
		case 4:
			return node{isArray: true, array: rapid.SliceOfN(nodes(depth-1), 0, 3).Draw(t, "array")}
		}
		pairs := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) pair {
			return pair{texts.Draw(t, "name"), nodes(depth-1).Draw(t, "value")}
		}), 0, 3, func(p pair) string { return p.name })
		return node{object: pairs.Draw(t, "object")}
	})
}

// spell writes a value in one of its spellings.
func (n node) spell(t *rapid.T) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r"}).Draw(t, "space") }
	switch {
	case n.word != "":
		return n.word
	case n.text != nil:
		return spellText(t, *n.text)
	case n.digits != "":
		return spellNumber(t, n.digits, n.power)
	}
	var parts []string
	open, closing := "{", "}"
	if n.isArray {
		open, closing = "[", "]"
		for _, element := range n.array {
			parts = append(parts, space()+element.spell(t)+space())
		}
		return open + strings.Join(parts, ",") + space() + closing
	}
	if len(n.object) > 0 {
		for _, p := range rapid.Permutation(n.object).Draw(t, "order") {
			if rapid.IntRange(0, 4).Draw(t, "twice") == 0 { // an earlier one of the name counts for nothing
				parts = append(parts, spellText(t, p.name)+":"+nodes(0).Draw(t, "earlier").spell(t))
			}
			parts = append(parts, space()+spellText(t, p.name)+space()+":"+space()+p.value.spell(t)+space())
		}
	}
	return open + strings.Join(parts, ",") + space() + closing
}

func spellText(t *rapid.T, text string) string {
	out := `"`
	for _, r := range text {
		escape := rapid.Bool().Draw(t, "escape")
		switch {
		case escape && r > 0xffff:
			out += fmt.Sprintf(`\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case escape, r < ' ':
			out += fmt.Sprintf(rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "case"), r)
		case r == '"' || r == '\\':
			out += `\` + string(r)
		default:
			out += string(r)
		}
	}
	return out + `"`
}

func spellNumber(t *rapid.T, digits string, power int) string {
	zeros := rapid.IntRange(0, 3).Draw(t, "zeros")
	if strings.TrimLeft(digits, "-0") != "" {
		digits += strings.Repeat("0", zeros)
		power -= zeros
	}
	fraction := rapid.IntRange(0, 3).Draw(t, "fraction")
	if fraction > 0 {
		sign := digits[:len(digits)-len(strings.TrimPrefix(digits, "-"))]
		padded := fmt.Sprintf("%0*s", 5+fraction, digits[len(sign):])
		whole := strings.TrimLeft(padded[:len(padded)-fraction], "0")
		digits = sign + strings.Repeat("0", max(0, 1-len(whole))) + whole + "." + padded[len(padded)-fraction:]
		power += fraction
	}
	if power == 0 && rapid.Bool().Draw(t, "plain") {
		return digits
	}
	return digits + rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e") + fmt.Sprintf(rapid.SampledFrom([]string{"%d", "%+d", "%+04d"}).Draw(t, "exponent"), power)
}

func TestDigestProperties(t *testing.T) {
	t.Parallel()
	t.Run("no_spelling_changes_it", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			n := nodes(3).Draw(t, "value")
			first, second := n.spell(t), n.spell(t)
			require.True(t, json.Valid([]byte(first)), first)
			require.Equal(t, digest(t, first), digest(t, second), "%s and %s", first, second)
		})
	})
	t.Run("two_are_equal_only_when_their_values_are", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			first, second := nodes(2).Draw(t, "one").spell(t), nodes(2).Draw(t, "other").spell(t)
			same := plain(first) == plain(second)
			require.Equal(t, same, digest(t, first) == digest(t, second), "%s and %s", first, second)
		})
	})
	t.Run("it_is_what_is_documented", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			args := nodes(3).Draw(t, "value").spell(t)
			require.Equal(t, reference("C", "", []byte(args)), digest(t, args), args)
		})
	})
}

// plain returns one text for a value, written without the documented form.
func plain(args string) string {
	decoder := json.NewDecoder(strings.NewReader(args))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		panic(err)
	}
	return fmt.Sprintf("%#v", plainNumbers(v)) // fmt sorts maps
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, _ := new(big.Rat).SetString(v.String())
		return json.Number(r.String())
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plainNumbers(v[name])
		}
	}
	return v
}

var (
	// halfPair finds possible halves of surrogate pairs, which the reference cannot distinguish.
	halfPair = regexp.MustCompile(`(?i)\\ud[89a-f]`)
	// vast finds numbers that take the reference too long.
	vast = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3}|[0-9.]{500}`)
)

// FuzzDigest tests that any arguments have the documented digest or are refused.
func FuzzDigest(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Class, v.Queue, []byte(v.Args))
	}
	f.Add("C", "", []byte(`[1e99999999999999999999,{"a":1,"a":[]},"\ud800"]`))
	f.Add("\xff", "\x00", []byte(strings.Repeat(`{"a":[`, 600)))
	for _, text := range []string{
		``, ` `, `[`, `]`, `[1`, `[1,]`, `[,]`, `[1 2]`, `[1,,2]`, `[[]]]`, `1 2`, `[1}`, `{`, `{"a"`, `{"a":`, `{"a" 1}`, `{"a":1,}`, `{,}`,
		`{1:2}`, `{"a":1 "b":2}`, `{"a":1]`, `nul`, `truex`, `01`, `-`, `1.`, `"`, `"\x"`, `"\u00"`, "\"\x01\"",
	} {
		f.Add("C", "", []byte(text))
	}
	f.Fuzz(func(t *testing.T, class, queue string, args []byte) {
		got, err := dedup.Digest(class, queue, args)
		if sound := json.Valid(args) && utf8.Valid(args); !sound {
			require.Error(t, err)
			return
		}
		if vast.Match(args) {
			return
		}
		if bytes.Count(args, []byte("["))+bytes.Count(args, []byte("{")) < 900 {
			require.NoError(t, err)
		}
		if err == nil && !halfPair.Match(args) {
			require.Equal(t, reference(class, queue, args), got)
		}
	})
}
