package browser

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// An image is what the Dockerfile in docs/ruby.md says.
type image struct {
	from     string
	packages []string
	env      []string
	files    map[string]string // texts by paths
	copies   []string          // files that stand beside the Dockerfile
	cmd      []string
}

// readImage reads the Dockerfile in docs/ruby.md. It fails at a step that it does not know.
func readImage(t *testing.T) *image {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ruby.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```dockerfile\n")
	require.True(t, found, "docs/ruby.md has a Dockerfile")
	rest, _, _ = strings.Cut(rest, "```\n")
	i := &image{files: map[string]string{}}
	install := regexp.MustCompile(`^apt-get update && apt-get install -y --no-install-recommends ([a-z0-9 -]+) && rm -rf /var/lib/apt/lists/\*$`)
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		verb, words, _ := strings.Cut(line, " ")
		fields := strings.Fields(words)
		switch {
		case verb == "FROM":
			i.from = words
		case verb == "RUN" && install.MatchString(words):
			i.packages = strings.Fields(install.FindStringSubmatch(words)[1])
		case verb == "COPY" && strings.HasPrefix(words, "<<'RUBY' "):
			i.files[fields[1]], rest, found = strings.Cut(rest, "\nRUBY\n")
			require.True(t, found, "the end of %s", fields[1])
		case verb == "COPY":
			require.Equal(t, "/"+fields[0], fields[1])
			i.copies = append(i.copies, fields[0])
		case verb == "ENV":
			i.env = append(i.env, words)
		case verb == "CMD":
			require.NoError(t, json.Unmarshal([]byte(words), &i.cmd))
		default:
			require.Fail(t, "a step of the Dockerfile that this test does not run", line)
		}
	}
	return i
}

// The image in docs/ruby.md is made of the Debian and of the packages that the tests run with in CI.
func TestTheImageIsOfDebiansPackages(t *testing.T) {
	i := readImage(t)
	require.Equal(t, "debian:12-slim", i.from)
	ci, err := os.ReadFile(filepath.Join("..", "..", ".github", "workflows", "check.yml"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ +container: golang:\S+-bookworm `, string(ci), "CI runs on Debian 12")
	need, err := os.ReadFile(filepath.Join("..", "..", "tools", "need"))
	require.NoError(t, err)
	require.NotEmpty(t, i.packages)
	for _, name := range i.packages {
		require.Regexp(t, `(?m)^\S+ +`+regexp.QuoteMeta(name)+`$`, string(need), "make need installs it")
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Status}", name).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "install ok installed", string(out), name)
	}
}

const webUser, webPassword = "ann", "a long pass"

// sidekiqWeb starts Sidekiq's pages as the image in docs/ruby.md does, and returns the address of the first one.
// Without locks, it leaves out the lines that bring belay.rb.
func (s *site) sidekiqWeb(locks bool) (first string) {
	s.t.Helper()
	i, root, addr := readImage(s.t), s.t.TempDir(), drivertest.FreeAddr(s.t)
	for _, name := range i.copies {
		if name == "belay.rb" && !locks {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", "contrib", "ruby", name))
		require.NoError(s.t, err)
		require.NoError(s.t, os.WriteFile(filepath.Join(root, name), text, 0o600))
	}
	for path, text := range i.files {
		if !locks {
			require.Contains(s.t, text, "require File.join(__dir__, \"belay.rb\")\n")
			text = strings.ReplaceAll(text, "require File.join(__dir__, \"belay.rb\")\n", "")
		}
		require.NoError(s.t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	words := make([]string, len(i.cmd))
	for n, word := range i.cmd {
		if _, ok := i.files[word]; ok {
			word = filepath.Join(root, word)
		}
		words[n] = strings.ReplaceAll(word, "0.0.0.0:9292", addr)
	}
	require.Contains(s.t, words, "tcp://"+addr)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(append(os.Environ(), i.env...), "REDIS_URL="+s.redis.URL(), "WEB_USER="+webUser, "WEB_PASSWORD="+webPassword)
	web := s.run(cmd)
	first = "http://" + addr + "/"
	eventually(s.t, "Sidekiq's pages; apt-get install ruby-sidekiq puma has them", func() bool {
		select {
		case <-web.end:
			require.FailNow(s.t, "the server has ended", web.log.String())
		default:
		}
		answer, err := http.Get(first)
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusUnauthorized
	})
	return first
}

// asOperator gives the password and a language with every request, and counts the scripts of hostile texts.
func asOperator(b *tab, language string) {
	b.t.Helper()
	ctx := b.ctx
	headers := network.Headers{
		"Authorization":   "Basic " + base64.StdEncoding.EncodeToString([]byte(webUser+":"+webPassword)),
		"Accept-Language": language,
	}
	_, err := chromedp.Call(ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: headers})
	require.NoError(b.t, err)
	_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "window.attacks = 0; window.attack = () => { window.attacks++ };",
	})
	require.NoError(b.t, err)
}

// missing are the scripts that Debian's package of Sidekiq lacks, and the icon that pages of JSON do not name.
var missing = regexp.MustCompile(`/javascripts/(application|dashboard)\.js|/favicon\.ico`)

// refused are reports of the browser that the policy of the image stopped a hostile text, and those of the images
// that such texts show.
var refused = regexp.MustCompile(`Content Security Policy|^request failed: +(csp|inspector)?$|/x\W*$|attack`)

// faults are the problems of a page that are not among the excepted ones.
func faults(b *tab, excepted ...*regexp.Regexp) (left []string) {
next:
	for _, problem := range b.takeProblems() {
		for _, except := range append(excepted, missing) {
			if except.MatchString(problem) {
				continue next
			}
		}
		left = append(left, problem)
	}
	return left
}
