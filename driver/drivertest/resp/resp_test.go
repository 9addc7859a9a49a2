package resp

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	t.Parallel()
	t.Run("reads_every_type_whole", func(t *testing.T) {
		t.Parallel()
		frames := map[string]any{
			"+OK\r\n": "OK", ":-7\r\n": int64(-7), "$3\r\na\r\n\r\n": "a\r\n", "$0\r\n\r\n": "", "$-1\r\n": nil, "*-1\r\n": nil, "_\r\n": nil,
			"*0\r\n": []any{}, "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n": []any{int64(1), []any{"x"}},
			"%1\r\n+a\r\n:1\r\n": []any{"a", int64(1)}, "~1\r\n#t\r\n": []any{"t"}, ",1.5\r\n": "1.5", "(123\r\n": "123", "=5\r\ntxt:x\r\n": "txt:x",
			">2\r\n+invalidate\r\n_\r\n": []any{"invalidate", nil},
		}
		for raw, want := range frames {
			frame, err := Read(bufio.NewReader(strings.NewReader(raw + "rest")))
			require.NoError(t, err, "%q", raw)
			require.Equal(t, raw, string(frame.Raw))
			require.Equal(t, want, frame.Value(), "%q", raw)
		}
	})
	t.Run("keeps_attributes_with_their_value", func(t *testing.T) {
		t.Parallel()
		raw := "|1\r\n+ttl\r\n:5\r\n$1\r\nx\r\n"
		frame, err := Read(bufio.NewReader(strings.NewReader(raw + "+next\r\n")))
		require.NoError(t, err)
		require.Equal(t, raw, string(frame.Raw))
	})
	t.Run("refuses_what_is_no_frame", func(t *testing.T) {
		t.Parallel()
		for _, raw := range []string{"PING\r\n", "\r\n", "+OK\n", "$x\r\n", "*-2\r\n", "$5\r\nabc", "*2\r\n:1\r\n", "+" + strings.Repeat("x", maxLine) + "\r\n"} {
			_, err := Read(bufio.NewReader(strings.NewReader(raw)))
			require.Error(t, err, "%.20q", raw)
			require.NotErrorIs(t, err, io.EOF, "%.20q: only a stream that ended between frames has ended well", raw)
		}
		_, err := Read(bufio.NewReader(strings.NewReader("")))
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("reads_what_Command_writes", func(t *testing.T) {
		t.Parallel()
		frame, err := Read(bufio.NewReader(strings.NewReader(string(Command("set", "a", "b\r\n\x00")))))
		require.NoError(t, err)
		require.Equal(t, "SET", frame.Name())
		require.Equal(t, []any{"set", "a", "b\r\n\x00"}, frame.Value())
		require.Empty(t, Frame{}.Name())
	})
}
