package args

import (
	"reflect"
	"testing"

	"github.com/belayq/belay/job"
)

// The cost of typed arguments for a run, and of positional ones for a push.
func BenchmarkArgs(b *testing.B) {
	type args struct {
		UserID   int64
		Template string
		Tags     []string
		Ratio    float64
	}
	parsed, err := job.Parse(`{"class":"A","jid":"1","args":[42,"short",["a","b"],1.5]}`)
	if err != nil {
		b.Fatal(err)
	}
	s := shapeOf[args](b)
	b.Run("fill", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v args
			if err := s.Fill(reflect.ValueOf(&v).Elem(), parsed.Args()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v := args{42, "short", []string{"a", "b"}, 1.5}
			if _, err := job.MarshalArgs(s.Write(reflect.ValueOf(&v).Elem())); err != nil {
				b.Fatal(err)
			}
		}
	})
}
