package seal

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
)

// keyOne and keyTwo are the bytes of keys.
var keyOne, keyTwo = []byte(strings.Repeat("1", 32)), []byte(strings.Repeat("S3cr3t!!", 4))

func word(id string, key []byte) string { return id + ":" + hex.EncodeToString(key) }

func keysOf(t require.TestingT, words ...string) Keys {
	keys, err := ParseKeys(strings.Join(words, " "))
	require.NoError(t, err)
	return keys
}

// stored returns a job of class Card with arguments that a Rule seals.
func stored(t require.TestingT, rule Rule, args string) *job.Job {
	sealed, ok, err := rule.Seal("Card", args)
	require.NoError(t, err)
	draft := job.Draft{Class: "Card", Queue: "q", ArgsJSON: sealed}
	if ok {
		draft.Extra = []job.Edit{{Name: Field, JSON: "true"}}
	}
	parsed, err := job.Parse(draft.Encode())
	require.NoError(t, err)
	return parsed
}

func TestSealedArgumentsOpen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Just(any(nil)),
			rapid.Map(rapid.Int(), func(n int) any { return []any{n, map[string]any{"a": "b"}} })), 0, 5).Draw(t, "values")
		args, err := job.MarshalArgs(values)
		require.NoError(t, err)
		rule := Rule{Keys: keysOf(t, word("a", keyOne), word("b", keyTwo)), All: rapid.Bool().Draw(t, "all")}
		sealed := stored(t, rule, args)
		opened, err := Open(sealed, keysOf(t, word("b", keyTwo), word("a", keyOne)))
		require.NoError(t, err)
		require.Equal(t, args, "["+strings.Join(opened, ",")+"]")
	})
}

func TestSeal(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, word("2026-09", keyTwo), word("2025-01", keyOne))
	t.Run("hides the last argument, and leaves the others", func(t *testing.T) {
		t.Parallel()
		j := stored(t, Rule{Keys: keys}, `[42,"x",{"number":"4111"}]`)
		require.Regexp(t, `^\[42,"x","belay:enc:1:last:2026-09:[A-Za-z0-9_-]+"\]$`, j.ArgsJSON())
		require.JSONEq(t, `[42,"x","[encrypted, key 2026-09]"]`, Shown(j))
	})
	t.Run("hides all arguments and their number", func(t *testing.T) {
		t.Parallel()
		j := stored(t, Rule{Keys: keys, All: true}, `[42,"x"]`)
		require.Regexp(t, `^\["belay:enc:1:all:2026-09:[A-Za-z0-9_-]+"\]$`, j.ArgsJSON())
		require.JSONEq(t, `["[encrypted, key 2026-09]"]`, Shown(j))
	})
	t.Run("never writes one text twice", func(t *testing.T) {
		t.Parallel()
		first, second := stored(t, Rule{Keys: keys}, `[1]`), stored(t, Rule{Keys: keys}, `[1]`)
		require.NotEqual(t, first.ArgsJSON(), second.ArgsJSON())
	})
	t.Run("has nothing to hide of no arguments", func(t *testing.T) {
		t.Parallel()
		j := stored(t, Rule{Keys: keys}, `[]`)
		_, marked := j.Field(Field)
		require.False(t, marked, "Sidekiq's pages fail on such a job")
		require.Equal(t, "[]", j.ArgsJSON())
	})
	t.Run("has the documented form", func(t *testing.T) {
		t.Parallel()
		args := stored(t, Rule{Keys: keys}, `["4111"]`).Args()
		head, text := args[0][1:len("\"belay:enc:1:last:2026-09:")], args[0][len("\"belay:enc:1:last:2026-09:"):len(args[0])-1]
		raw, err := base64.RawURLEncoding.DecodeString(text)
		require.NoError(t, err)
		require.Len(t, raw, 12+len(`"4111"`)+16)
		r, err := keys.ring()
		require.NoError(t, err)
		plain, err := r.ciphers["2026-09"].Open(nil, nil, raw, []byte(head+"Card"))
		require.NoError(t, err)
		require.Equal(t, `"4111"`, string(plain))
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, word("k1", keyOne))
	sealed := stored(t, Rule{Keys: keys}, `[1,"SECRETS"]`) // of a length that leaves bits of the base64 unused
	parse := func(payload string) *job.Job {
		parsed, err := job.Parse(payload)
		require.NoError(t, err)
		return parsed
	}
	t.Run("fails without the key, and names it", func(t *testing.T) {
		t.Parallel()
		for want, keys := range map[string]Keys{
			"the arguments cannot be decrypted with the key k1: it is not among this program's keys (k2): add it":                                                      keysOf(t, word("k2", keyTwo)),
			"the arguments cannot be decrypted with the key k1: the class has no keys in this program: define it with the option Encrypted":                            {},
			"the arguments cannot be decrypted with the key k1: the text does not open: another key has this ID here, the text was changed, or it is of another class": keysOf(t, word("k1", keyTwo)),
			"the arguments cannot be decrypted with the key k1: the keys of BELAY_NO_SUCH_KEYS: neither variable, with or without _FILE, is set":                       KeysFromEnv("BELAY_NO_SUCH_KEYS"),
		} {
			_, err := Open(sealed, keys)
			require.EqualError(t, err, want)
			var unopened *Error
			require.ErrorAs(t, err, &unopened)
			require.Equal(t, "k1", unopened.KeyID)
			require.Equal(t, "belay.DecryptError", unopened.ErrorClass())
		}
	})
	t.Run("opens nothing in another class", func(t *testing.T) {
		t.Parallel()
		_, err := Open(parse(sealed.Patch(job.SetString("class", "Log"))), keys)
		require.ErrorContains(t, err, "of another class")
	})
	t.Run("opens nothing that was changed, at any byte", func(t *testing.T) {
		t.Parallel()
		text := sealed.Args()[1]
		for at := 1; at < len(text)-1; at++ {
			changed := []byte(text)
			if changed[at] ^= 1; changed[at] == '"' || changed[at] == '\\' {
				continue
			}
			opened, err := Open(parse(sealed.Patch(job.Edit{Name: "args", JSON: "[1," + string(changed) + "]"})), keys)
			if err == nil { // the text no longer begins as a sealed one: it is an argument like any other, and nothing is shown
				require.Equal(t, string(changed), opened[1])
				require.Less(t, at, len("\""+prefix))
			}
		}
	})
	t.Run("opens nothing of an unknown form, and never panics", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "last:", "all:", "last:k1", "last:k1:", "last:k1:AA", "last:k1:!", "other:k1:AA", "last:<b>:AA", "last::AA", "all:k1:AA"} {
			arg := `"` + prefix + text + `"`
			for _, args := range []string{"[" + arg + "]", "[1," + arg + "]"} {
				j := parse(`{"class":"Card","jid":"1","args":` + args + `,"encrypt":true}`)
				_, err := Open(j, keys)
				var unopened *Error
				require.ErrorAs(t, err, &unopened, text)
				require.Contains(t, Shown(j), "[encrypted")
				require.NotContains(t, Shown(j)+err.Error(), "<b>")
			}
		}
	})
	t.Run("leaves arguments that the payload does not call encrypted", func(t *testing.T) {
		t.Parallel()
		for _, payload := range []string{
			`{"class":"Card","jid":"1","args":[1,"belay:enc:1:last:k1:AA"]}`,
			`{"class":"Card","jid":"1","args":[1,"plain"],"encrypt":true}`,
			`{"class":"Card","jid":"1","args":[],"encrypt":true}`,
			`{"class":"Card","jid":"1","args":[1,"belay:enc:1:last:k1:AA"],"encrypt":false}`,
		} {
			j := parse(payload)
			opened, err := Open(j, keys)
			require.NoError(t, err)
			require.Equal(t, j.Args(), opened)
		}
	})
}

func TestAPlainJobPaysNothing(t *testing.T) {
	j, err := job.Parse(`{"class":"Card","jid":"1","args":[1,"plain"]}`)
	require.NoError(t, err)
	plain := testing.AllocsPerRun(100, func() { _ = j.Args() })
	require.InDelta(t, plain, testing.AllocsPerRun(100, func() { _, _ = Open(j, Keys{}) }), 0)
}

func TestShownHidesWhatAnotherProgramEncrypted(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"class":"A","jid":"1","args":[1,"BAhTOh1TaWRla2lx"],"encrypt":true}`: `[1,"[encrypted]"]`,
		`{"class":"A","jid":"1","args":[],"encrypt":true}`:                     `[]`,
		`{"class":"A","jid":"1","args":[1],"encrypt":false}`:                   `[1]`,
		`{"class":"A","jid":"1","args":["encrypt"]}`:                           `["encrypt"]`,
	} {
		parsed, err := job.Parse(payload)
		require.NoError(t, err)
		require.Equal(t, want, Shown(parsed))
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	t.Run("reads hexadecimal digits and base64", func(t *testing.T) {
		t.Parallel()
		keys := keysOf(t, word("a", keyOne)+"\n", "b:"+base64.StdEncoding.EncodeToString(keyTwo)+"\n", "c:"+base64.RawStdEncoding.EncodeToString(keyOne))
		require.Equal(t, "keys a, b, c", keys.String())
		require.NoError(t, keys.Check())
	})
	t.Run("names all mistakes, and shows no key", func(t *testing.T) {
		t.Parallel()
		secret := hex.EncodeToString(keyTwo)
		_, err := ParseKeys(secret + " :" + secret + " a:" + secret[2:] + " " + word("b", keyOne) + " " + word("b", keyTwo) + " " +
			secret + ":c " + base64.StdEncoding.EncodeToString(keyTwo) + ":d e:" + secret + "00 f:" + strings.Repeat("z", 64))
		require.Error(t, err)
		require.Equal(t, 8, strings.Count(err.Error(), " of 9: "), err.Error())
		require.Contains(t, err.Error(), `key 5 of 9: the ID "b" is there twice`)
		require.Contains(t, err.Error(), "key 3 of 9: it must have 32 bytes")
		require.NotContains(t, err.Error(), secret[2:20])
		require.NotContains(t, err.Error(), base64.StdEncoding.EncodeToString(keyTwo)[:20])
		_, err = ParseKeys(" \n")
		require.ErrorContains(t, err, "there is no key")
	})
}

func TestKeysShowNoKey(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, word("k1", keyTwo))
	var text strings.Builder
	slog.New(slog.NewJSONHandler(&text, nil)).Info("x", "keys", keys, "rule", Rule{Keys: keys})
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "keys", keys, "rule", Rule{Keys: keys})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		_, _ = fmt.Fprintf(&text, verb+" "+verb+" "+verb, keys, &keys, Rule{Keys: keys})
	}
	written, err := json.Marshal(map[string]any{"keys": keys})
	require.NoError(t, err)
	text.Write(written)
	for _, form := range []string{"S3cr3t", hex.EncodeToString(keyTwo)[:12], fmt.Sprint(keyTwo)[1:20]} {
		require.NotContains(t, strings.ToLower(text.String()), strings.ToLower(form))
	}
	require.Contains(t, text.String(), "keys k1")
}

func TestKeysFromEnv(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(word("file", keyOne)+"\n"), 0o600))
	keys := KeysFromEnv("BELAY_TEST_KEYS")
	require.False(t, keys.Empty())
	require.EqualError(t, keys.Check(), "the keys of BELAY_TEST_KEYS: neither variable, with or without _FILE, is set")
	t.Setenv("BELAY_TEST_KEYS", "nonsense S3cr3t")
	require.ErrorContains(t, keys.Check(), "the keys of BELAY_TEST_KEYS: key 1 of 2: it must have 32 bytes")
	t.Setenv("BELAY_TEST_KEYS_FILE", path)
	require.ErrorContains(t, keys.Check(), "both variables")
	t.Setenv("BELAY_TEST_KEYS", "")
	require.NoError(t, keys.Check())
	require.Equal(t, "keys file", keys.String())
	require.Equal(t, "no keys", Keys{}.String())
}

// A digest must not change while a new key is added and becomes the current one: unique jobs would be accepted
// twice.
func TestTheDigestStaysWhenAKeyIsAdded(t *testing.T) {
	t.Parallel()
	plain := strings.Repeat("0", 32)
	digest := func(words ...string) string {
		text, err := keysOf(t, words...).Digest(plain)
		require.NoError(t, err)
		return text
	}
	first := digest(word("2025", keyOne))
	require.Regexp(t, "^[0-9a-f]{32}$", first)
	require.NotEqual(t, plain, first)
	require.Equal(t, first, digest(word("2025", keyOne), word("2026", keyTwo)))
	require.Equal(t, first, digest(word("2026", keyTwo), word("2025", keyOne)))
	require.NotEqual(t, first, digest(word("2026", keyTwo)))
}
