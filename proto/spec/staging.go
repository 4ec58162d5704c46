package spec

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// MaxStagings bounds the copies of a job: they are in its record.
const MaxStagings = 32

// StagingSum is what may follow a source and a #, before the SHA-256 of the file in hex.
const StagingSum = "sha256="

var stagingSum = regexp.MustCompile("^" + StagingSum + "[0-9a-fA-F]{64}$")

// SubmitScheme is that of a file of the host on which the job was submitted:
// submit://HOST/PATH. A source is copied from there while the job waits for it, as the name
// HereSuffix of its target, until it has its own. A result is fetched from there.
const (
	SubmitScheme = "submit"
	HereSuffix   = ".here"
)

// HereTarget is the path in the job of a file of the submitting host.
func (s Staging) HereTarget() string {
	if strings.HasSuffix(s.Target, "/") {
		return s.Target + path.Base(s.Source)
	}
	return s.Target
}

// Here answers the host and the path of a file of the submitting host.
func (s Staging) Here() (host, file string, is bool) {
	there := s.Source
	if s.Out {
		there = s.Target
	}
	rest, is := strings.CutPrefix(there, SubmitScheme+"://")
	host, file, _ = strings.Cut(rest, "/")
	return host, "/" + file, is
}

// Staging is one copy of --stage-in or --stage-out.
type Staging struct {
	Source, Target string
	Out            bool
	Once           bool // of files that come: only to the job's first node
}

// OncePrefix begins a --stage-in whose target the job's nodes share.
const OncePrefix = "once:"

// String is what was typed.
func (s Staging) String() string {
	text := s.Source + ":" + s.Target
	if s.Once {
		return OncePrefix + text
	}
	return text
}

// On is the copy that a node of the job makes, by its name and its index; it makes none if
// the copy is another node's.
func (s Staging) On(node string, index int) (copied Staging, makes bool) {
	copied = s
	copied.Source, copied.Target = onNode(s.Source, node, index), onNode(s.Target, node, index)
	return copied, index == 0 || s.EachNode()
}

// EachNode reports whether each node of a job makes the copy. Results of all would overwrite
// each other, unless their target tells the nodes apart.
func (s Staging) EachNode() bool {
	if s.Out {
		return onNode(s.Target, "a", 1) != onNode(s.Target, "b", 2)
	}
	return !s.Once
}

// onNode replaces the symbols of a place: %N, %n and %%. A URL has none of these otherwise.
func onNode(place, node string, index int) string {
	short, _, _ := strings.Cut(node, ".")
	return strings.NewReplacer("%%", "%", "%N", short, "%n", strconv.Itoa(index)).Replace(place)
}

// ParseStaging reads SOURCE:TARGET of --stage-in, or of --stage-out.
func ParseStaging(text string, out bool) (Staging, error) {
	once := false
	if !out {
		text, once = strings.CutPrefix(text, OncePrefix)
	}
	// The one on the job's side has no colon.
	at := strings.LastIndexByte(text, ':')
	if out {
		at = strings.IndexByte(text, ':')
	}
	if at < 0 {
		return Staging{}, errors.New("it is SOURCE:TARGET")
	}
	s := Staging{Source: text[:at], Target: text[at+1:], Out: out, Once: once}
	if strings.HasPrefix(s.Target, "//") && !out {
		return s, errors.New("it names no target: type SOURCE:TARGET")
	}
	return s, CheckStaging(s)
}

// CheckStaging refuses a copy that cannot be.
func CheckStaging(s Staging) error {
	there, here := s.Source, s.Target
	if s.Out {
		there, here = s.Target, s.Source
	}
	for _, text := range []string{there, here} {
		switch {
		case text == "":
			return errors.New("a source or a target is empty: type SOURCE:TARGET")
		case len(text) > MaxPathBytes:
			return fmt.Errorf("%q… is longer than %d bytes", text[:32], MaxPathBytes)
		case strings.ContainsFunc(text, unicode.IsControl):
			return fmt.Errorf("%s has a control character", shorten(text))
		}
	}
	if s.Once && s.Out {
		return errors.New("once is a word of files that come")
	}
	if strings.Contains(here, "://") {
		return fmt.Errorf("%s is to be a path that the job sees: of the two only the one outside may be a URL", shorten(here))
	}
	scheme, _, remote := strings.Cut(there, "://")
	switch {
	case !remote || scheme == SubmitScheme && !s.Out:
		return nil
	case scheme == SubmitScheme && !path.IsAbs(here):
		return fmt.Errorf("%s: a result that goes to the submitting host is named by a path that begins with /", shorten(here))
	case scheme == SubmitScheme:
		return nil
	}
	u, err := url.Parse(onNode(there, "node", 0))
	switch {
	case scheme != "http" && scheme != "https" && scheme != "s3":
		return fmt.Errorf("%s: files come and go by http://, https:// and s3://, or by a path that the job sees", shorten(there))
	case err != nil || u.Host == "":
		return fmt.Errorf("%s is no URL", shorten(there))
	case u.User != nil:
		return fmt.Errorf("a URL with a password would be in the job's record: leave it out, and give s3:// its credentials in the environment")
	case u.Fragment != "" && (s.Out || !stagingSum.MatchString(u.Fragment)):
		return fmt.Errorf("%s: what follows # is sha256= and 64 digits, and only of a source", shorten(there))
	case scheme == "s3" && strings.Trim(u.Path, "/") == "":
		return fmt.Errorf("%s names a bucket and nothing in it: type s3://BUCKET/KEY", shorten(there))
	}
	return nil
}
