package resp

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

func read(text string) (any, error) { return Read(bufio.NewReader(strings.NewReader(text))) }

func TestRead(t *testing.T) {
	t.Parallel()
	t.Run("reads_every_type_whole", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]any{
			"+OK\r\n": "OK", ":-7\r\n": int64(-7), "$3\r\na\r\n\r\n": "a\r\n", "$0\r\n\r\n": "", "$-1\r\n": nil, "*-1\r\n": nil, "_\r\n": nil,
			"*0\r\n": []any{}, "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n": []any{int64(1), []any{"x"}},
			"%1\r\n+a\r\n:1\r\n": []any{"a", int64(1)}, "~1\r\n+t\r\n": []any{"t"}, ",1.5\r\n": "1.5", ">1\r\n+x\r\n": []any{"x"},
		} {
			in := bufio.NewReader(strings.NewReader(text + "+next\r\n"))
			value, err := Read(in)
			require.NoError(t, err, text)
			require.Equal(t, want, value, text)
			next, err := Read(in)
			require.NoError(t, err, text)
			require.Equal(t, "next", next, text)
		}
	})
	t.Run("an_error_inside_an_array_is_that_of_the_whole", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"-OOM no\r\n", "*2\r\n-OOM no\r\n:1\r\n"} {
			in := bufio.NewReader(strings.NewReader(text + "+next\r\n"))
			_, err := Read(in)
			require.Equal(t, driver.NewServerError("OOM no"), err)
			next, err := Read(in)
			require.NoError(t, err)
			require.Equal(t, "next", next)
		}
	})
	t.Run("refuses_what_is_no_reply", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "PING\r\n", "\r\n", "+OK\n", "$x\r\n", "$5\r\nabc", "*2\r\n:1\r\n", "?1\r\n"} {
			_, err := read(text)
			require.Error(t, err, "%.20q", text)
		}
	})
}
