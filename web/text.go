package web

import (
	"fmt"
	"html/template"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/logbook"
)

// visible reports whether a character is seen, and does not change how its neighbours are seen, as control and
// format characters do, among them those that reverse the direction of text, and separators of lines.
func visible(r rune) bool { return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) }

// plain returns untrusted text with every deceiving character spelled out: \u202e.
func plain(text string) string { return logbook.Plain(text) }

// shown returns untrusted text as HTML, with deceiving characters spelled out and marked: a program may have
// written a backslash and digits, and the mark tells the two apart.
func shown(text string) template.HTML {
	return template.HTML(logbook.Spell(text, visible, template.HTMLEscapeString, mark)) //nolint:gosec // escaped
}

// shownLines is shown for text of several lines: newlines and tabs stay.
func shownLines(text string) template.HTML {
	may := func(r rune) bool { return visible(r) || r == '\n' || r == '\t' }
	return template.HTML(logbook.Spell(text, may, template.HTMLEscapeString, mark)) //nolint:gosec // escaped
}

// shownName is shown for the name of a class, a queue or a process in a list: cut, and where it does not fit
// broken between its words instead of within one.
func shownName(most int, name string) template.HTML {
	var out strings.Builder
	for _, word := range words(cut(most, name)) {
		if out.Len() > 0 {
			out.WriteString("<wbr>")
		}
		out.WriteString(string(shown(word)))
	}
	return template.HTML(out.String()) //nolint:gosec // escaped
}

func shownClass(name string) template.HTML { return shownName(80, name) }

// words divides a name after its separators and before capital letters.
func words(name string) (list []string) {
	begin, before := 0, rune(0)
	for at, r := range name {
		after := strings.ContainsRune("_-./:@", before) && !strings.ContainsRune("_-./:@", r)
		if at > begin && (after || unicode.IsLower(before) && unicode.IsUpper(r)) {
			list, begin = append(list, name[begin:at]), at
		}
		before = r
	}
	return append(list, name[begin:])
}

func mark(escape string) string { return `<span class="esc">` + escape + `</span>` }

// cut shortens a text to a number of characters.
func cut(most int, text string) string {
	if len(text) <= most {
		return text
	}
	n := 0
	for at := range text {
		if n == most {
			return text[:at] + "…"
		}
		n++
	}
	return text
}

// number returns a count, which is an int, an int64 or a pointer to one.
func number(n any) int64 { return reflect.Indirect(reflect.ValueOf(n)).Int() }

// figure writes a number with its thousands apart: 1,234,567.
func figure(n any) string {
	digits := strconv.FormatInt(number(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "−", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// span writes a duration with at most two units: 3d 4h, 12m 5s, 4.2s, 37ms.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + span(-d)
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return twoUnits(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < 24*time.Hour:
		return twoUnits(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	}
	return twoUnits(d/(24*time.Hour), "d", d%(24*time.Hour)/time.Hour, "h")
}

func twoUnits(n time.Duration, unit string, rest time.Duration, smaller string) string {
	if rest == 0 {
		return fmt.Sprintf("%d%s", n, unit)
	}
	return fmt.Sprintf("%d%s %d%s", n, unit, rest, smaller)
}

func spanOf(s inspect.Seconds) string { return span(s.Duration) }

// memory writes kilobytes.
func memory(kb int) string {
	switch {
	case kb <= 0:
		return "–"
	case kb < 10<<10:
		return fmt.Sprintf("%.1f MB", float64(kb)/1024)
	case kb < 1<<20:
		return fmt.Sprintf("%d MB", kb>>10)
	}
	return fmt.Sprintf("%.1f GB", float64(kb)/(1<<20))
}

// size writes bytes.
func size(bytes int) string {
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/(1<<20))
}
