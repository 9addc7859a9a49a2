package dedup

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
)

func lsn(t require.TestingT, text string) LSN {
	position, err := ParseLSN(text)
	require.NoError(t, err, text)
	return position
}

func TestLSN(t *testing.T) {
	t.Parallel()
	t.Run("is_compared_as_a_number", func(t *testing.T) {
		t.Parallel()
		rising := []string{"0/1", "0/9", "0/10", "0/FFFFFFFF", "1/0", "9/0", "9/FFFFFFFF", "10/0", "a0/0", "FFFFFFFF/FFFFFFFF"}
		for i := range rising[1:] {
			require.Less(t, lsn(t, rising[i]), lsn(t, rising[i+1]), "%s and %s", rising[i], rising[i+1])
		}
		require.Equal(t, lsn(t, "16/b374d848"), lsn(t, "00000016/B374D848"))
	})
	t.Run("is_written_as_PostgreSQL_writes_it", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "16/B374D848", lsn(t, "16/b374d848").String())
		rapid.Check(t, func(t *rapid.T) {
			position := LSN(rapid.Uint64Min(1).Draw(t, "position"))
			require.Equal(t, position, lsn(t, position.String()))
		})
	})
	t.Run("is_nothing_else", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "/", "0", "0/", "/0", "0/0", "+1/0", "1/-1", "1/0 ", " 1/0", "1/0/0", "123456789/0", "0/000000001", "g/0", "0x1/0", "1_0/0"} {
			_, err := ParseLSN(text)
			require.Error(t, err, "%q", text)
		}
	})
}

// positions draws a few positions with few different names, so that names coincide.
var positions = rapid.MapOfN(rapid.SampledFrom([]string{"main", "ci", "geo", `q"\`}), rapid.Map(rapid.Uint64Min(1), func(n uint64) LSN { return LSN(n) }), 0, 4)

func drawWAL(t *rapid.T, label string) WAL {
	drawn := positions.Draw(t, label)
	if len(drawn) == 0 {
		return nil
	}
	return drawn
}

func TestWAL(t *testing.T) {
	t.Parallel()
	t.Run("later_is_the_same_in_any_order_and_grouping", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			a, b, c := drawWAL(t, "a"), drawWAL(t, "b"), drawWAL(t, "c")
			kept := maps.Clone(a)
			require.Equal(t, a.Later(b), b.Later(a))
			require.Equal(t, a.Later(b).Later(c), a.Later(b.Later(c)))
			require.Equal(t, a, a.Later(a))
			require.Equal(t, kept, a, "and changes neither")
			for name, position := range a {
				require.GreaterOrEqual(t, a.Later(b)[name], position)
			}
		})
	})
	t.Run("is_read_back_from_a_payload_and_from_lines", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			own, left := drawWAL(t, "own"), drawWAL(t, "left")
			require.Equal(t, own, WALOfLines(own.Lines()))
			j, err := job.Parse(job.Draft{Class: "C", Extra: []job.Edit{own.Edit(FieldWAL), left.Edit(FieldRefusedWAL)}}.Encode())
			require.NoError(t, err)
			require.Equal(t, own.Later(left), ReadWAL(j))
			require.Equal(t, left, ReadRefusedWAL(j))
		})
	})
	t.Run("is_written_by_the_order_of_names", func(t *testing.T) {
		t.Parallel()
		w := WAL{"main": 0x16_B374D848, "ci": 1}
		require.Equal(t, "ci 0/1\nmain 16/B374D848", w.Lines())
		require.Equal(t, job.Edit{Name: FieldWAL, JSON: `{"ci":"0/1","main":"16/B374D848"}`}, w.Edit(FieldWAL))
		require.Equal(t, job.Remove(FieldWAL), WAL(nil).Edit(FieldWAL))
	})
	t.Run("of_others_is_read_as_far_as_it_is_one", func(t *testing.T) {
		t.Parallel()
		for fields, want := range map[string]WAL{
			`"wal_locations":{"main":"9/0","ci":"0/0","geo":7,"":"1/0","a b":"1/0"}`:          {"main": 9 << 32},
			`"wal_locations":{"main":"9/0","geo":1e999}`:                                      {"main": 9 << 32},
			`"wal_locations":{"main":"9/0"},"dedup_wal_locations":{"main":"10/0","ci":"0/A"}`: {"main": 16 << 32, "ci": 10},
			`"wal_locations":{"main":"9/0"},"dedup_wal_locations":[]`:                         {"main": 9 << 32},
			`"dedup_wal_locations":{"main":"1/0"}`:                                            {"main": 1 << 32},
			`"wal_locations":null`:                                                            nil, `"wal_locations":"9/0"`: nil, `"wal_locations":{}`: nil, `"x":"wal_locations"`: nil, `"x":1`: nil,
		} {
			j, err := job.Parse(`{"class":"C","args":[],"jid":"j",` + fields + `}`)
			require.NoError(t, err)
			require.Equal(t, want, ReadWAL(j), fields)
		}
		require.Equal(t, WAL{"main": 1}, WALOfLines("\nmain 0/1\nci\n\nno position\n"))
		var many []string
		for n := range 3 * MaxWAL {
			many = append(many, fmt.Sprintf("n%d 0/1", n))
		}
		require.Len(t, WALOfLines(strings.Join(many, "\n")), MaxWAL)
	})
}

func TestCheckWAL(t *testing.T) {
	t.Parallel()
	many := make(WAL)
	for n := range MaxWAL + 1 {
		many[fmt.Sprint(n)] = 1
	}
	for want, w := range map[string]WAL{
		"":                              {"main": 1, strings.Repeat("x", 64): 2, "größe": 3, `<"&>`: 4},
		"17 positions":                  many,
		"is 0: leave it out":            {"main": 0},
		"without a name":                {"": 1},
		"65 bytes long":                 {strings.Repeat("x", 65): 1},
		"a space or a control":          {"a b": 1},
		"not valid UTF-8":               {"a\xff": 1},
		"holds a space or a control ch": {"a\nb": 1},
	} {
		err := w.Check()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, WAL(nil).Check())
	err := WAL{"": 1, "a b": 1}.Check()
	require.ErrorContains(t, err, "without a name")
	require.ErrorContains(t, err, "a space", "all of it at once")

	w, err := ParseWAL(map[string]string{"main": "9/0", "ci": "10/0"})
	require.NoError(t, err)
	require.Equal(t, WAL{"main": 9 << 32, "ci": 16 << 32}, w)
	_, err = ParseWAL(map[string]string{"main": "9", "ci": "0/0"})
	require.ErrorContains(t, err, `connection "main": "9" is not a position`)
	require.ErrorContains(t, err, `connection "ci": the position 0/0 means no position`)
}
