package launcher

import "regexp"

// addresses are the places where errors of the network name sockets, hosts and name servers, and what stays of each. The more
// telling patterns come first.
var addresses = []struct {
	at   *regexp.Regexp
	left string
}{
	{regexp.MustCompile(`\b(dial|read|write) (tcp\d?|udp\d?|unix\w*) .+?: `), "$1 $2: "},
	{regexp.MustCompile(`\blookup \S+( on \S+)?: `), "lookup: "},
	{regexp.MustCompile(`(\[[0-9a-fA-F:.%]+\]|[\w.%-]+):\d{1,5}\b`), "(address)"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`), "(address)"},
}

// withoutAddresses is the text of an error for those who may ask for a worker's health: anybody who reaches the endpoint. What
// happened stays. The log has the whole.
func withoutAddresses(text string) string {
	for _, one := range addresses {
		text = one.at.ReplaceAllString(text, one.left)
	}
	return text
}
