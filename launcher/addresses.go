package launcher

import "regexp"

// addresses match the sockets, hosts and name servers in network errors, with what remains of each. The
// more specific patterns come first.
var addresses = []struct {
	at   *regexp.Regexp
	left string
}{
	{regexp.MustCompile(`\b(dial|read|write) (tcp\d?|udp\d?|unix\w*) .+?: `), "$1 $2: "},
	{regexp.MustCompile(`\blookup \S+( on \S+)?: `), "lookup: "},
	{regexp.MustCompile(`(\[[0-9a-fA-F:.%]+\]|[\w.%-]+):\d{1,5}\b`), "(address)"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`), "(address)"},
}

// withoutAddresses returns the text of an error without addresses, because anyone who reaches the health
// endpoint can read it. The log has the full text.
func withoutAddresses(text string) string {
	for _, one := range addresses {
		text = one.at.ReplaceAllString(text, one.left)
	}
	return text
}
