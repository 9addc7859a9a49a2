package args

import (
	"math/big"
	"testing"
	"time"
)

// celsius has MarshalText and UnmarshalText with pointer receivers.
type celsius struct{ degrees int }

func (c *celsius) MarshalText() ([]byte, error) {
	return []byte(time.Duration(c.degrees).String()), nil
}

func (c *celsius) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	c.degrees = int(d)
	return err
}

// A sum is a field of other structs. Its Amount has a MarshalJSON with a pointer receiver.
type sum struct {
	Amount big.Int
	Temp   celsius `json:"temp"`
}

func sumOf(n int64) sum { return sum{*big.NewInt(n), celsius{int(n)}} }

// encoding/json writes {} for a copy of a type whose MarshalJSON has a pointer receiver.
func TestWhatWritesItselfByAPointer(t *testing.T) {
	t.Parallel()
	huge := new(big.Int).Lsh(big.NewInt(1), 80)
	five := sumOf(5)
	const fives = `{"Amount":5,"temp":"5ns"}`
	t.Run("does as an argument", func(t *testing.T) {
		t.Parallel()
		bothWays(t, `[1208925819614629174706176]`, *huge)
		bothWays(t, `[1208925819614629174706176]`, huge)
		type args struct {
			Plain   big.Int
			Pointer *big.Int
			None    *big.Int
			List    []big.Int
			Array   [2]celsius
			Map     map[string]*big.Int
		}
		bothWays(t, `[5,5,null,[5],["1ns","2ns"],{"a":5}]`, args{
			Plain: *big.NewInt(5), Pointer: big.NewInt(5), List: []big.Int{*big.NewInt(5)}, Array: [2]celsius{{1}, {2}},
			Map: map[string]*big.Int{"a": big.NewInt(5)},
		})
	})
	t.Run("does in a struct, wherever that has an address", func(t *testing.T) {
		t.Parallel()
		type args struct {
			Plain   sum
			Pointer *sum
			Slice   []sum
			Array   [1]sum
			Slices  [][]sum
			Nested  struct{ Sum sum }
			Far     struct{ Sums []*struct{ Sum [1]sum } }
			Rest    []sum `belay:",rest"`
		}
		given := args{Plain: five, Pointer: &five, Slice: []sum{five}, Array: [1]sum{five}, Slices: [][]sum{{five}}, Rest: []sum{five}}
		given.Nested.Sum = five
		given.Far.Sums = []*struct{ Sum [1]sum }{{[1]sum{five}}}
		bothWays(t, `[`+fives+`,`+fives+`,[`+fives+`],[`+fives+`],[[`+fives+`]],{"Sum":`+fives+`},{"Sums":[{"Sum":[`+fives+`]}]},`+fives+`]`, given)
	})
	t.Run("does where such a struct is the only argument", func(t *testing.T) {
		t.Parallel()
		bothWays(t, `[[`+fives+`]]`, []sum{five})
		bothWays(t, `[[`+fives+`]]`, [1]sum{five})
	})
	t.Run("does behind an address that lies in a map's value", func(t *testing.T) {
		t.Parallel()
		bothWays(t, `[{"a":`+fives+`}]`, map[string]*sum{"a": &five})
		bothWays(t, `[{"a":[`+fives+`]}]`, map[string][]sum{"a": {five}})
		bothWays(t, `[{"a":{"Sums":[`+fives+`],"By":{"1":[5]}}}]`, map[string]struct {
			Sums []sum
			By   map[int][]big.Int
		}{"a": {[]sum{five}, map[int][]big.Int{1: {*big.NewInt(5)}}}})
	})
	t.Run("does where it is a copy", func(t *testing.T) {
		t.Parallel()
		number, sums := *big.NewInt(5), map[string]sum{"a": five}
		bothWays(t, `[{"a":5}]`, map[string]big.Int{"a": number})
		bothWays(t, `[{"a":[5]}]`, map[string][1]big.Int{"a": {number}})
		bothWays(t, `[{"a":`+fives+`}]`, sums)
		bothWays(t, `[{"a":{"Sums":[`+fives+`]}}]`, map[string]struct{ Sums [1]sum }{"a": {[1]sum{five}}})
		bothWays(t, `[{"a":{"b":5}}]`, map[string]map[string]big.Int{"a": {"b": number}})
		bothWays(t, `[{"a":[{"a":`+fives+`}]}]`, map[string][]map[string]sum{"a": {sums}})
		bothWays(t, `[{"By":{"1":`+fives+`}}]`, struct{ By struct{ By map[int]sum } }{struct{ By map[int]sum }{map[int]sum{1: five}}})
		type rest struct {
			Rest []map[string]sum `belay:",rest"`
		}
		bothWays(t, `[{"a":`+fives+`}]`, rest{[]map[string]sum{sums}})
	})
}
