package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of [images].
const (
	MaxImagePatterns = 256
	MaxImageKeys     = 64
	MaxImageSigners  = 64 // identities
	maxPatternBytes  = 512
	maxKeyBytes      = 4096
	// MaxTrustedRootBytes bounds a trusted root: each job with an image brings it to its
	// node. Sigstore's own has less than 16 KiB.
	MaxTrustedRootBytes = 64 << 10
)

// RulesOf says whose rules of images they are.
type RulesOf string

// Rules of the site are those of cluster.toml; those of a node's owner are for guests there.
const (
	SiteRules  RulesOf = "[images]"
	OwnerRules RulesOf = "the terms of its owner"
)

// asker is whom to ask for an exception.
func (r RulesOf) asker() string {
	if r == OwnerRules {
		return "the owner"
	}
	return "an administrator"
}

// ImageProblem says which rule keeps a job from having an image, and what would satisfy
// it; "" = none. The image is pinned, as in JobSpec.
func ImageProblem(rules *pb.ImageRules, of RulesOf, image string) string {
	place, digest := placeOf(image)
	if slices.Contains(rules.GetBarred(), digest) {
		return fmt.Sprintf("the image %s is barred (barred in %s): take another version of it", digest, of)
	}
	for _, pattern := range rules.GetDeny() {
		if matchesImage(pattern, place) {
			return fmt.Sprintf("%s is refused by %q (deny in %s): take an image from elsewhere", place, pattern, of)
		}
	}
	allow := rules.GetAllow()
	if len(allow) > 0 && !slices.ContainsFunc(allow, func(pattern string) bool { return matchesImage(pattern, place) }) {
		return fmt.Sprintf("%s is not among %s (allow in %s): take an image from there, or ask %s to allow it", place, strings.Join(allow, ", "), of, of.asker())
	}
	if signers := SignersOf(rules, image); signers.Any() && !strings.HasPrefix(image, "docker://") {
		return fmt.Sprintf("%s must be signed (signed in %s), and only images of registries have signatures: push it to one, and sign it", place, of)
	}
	return ""
}

// Signers are the keys and identities of which one must have signed an image.
type Signers struct {
	Keys       []string // public ones, in PEM
	Identities []*pb.ImageIdentity
}

// Any reports whether somebody must have signed it.
func (s *Signers) Any() bool { return len(s.Keys)+len(s.Identities) > 0 }

// SignersOf are those that rules name for an image.
func SignersOf(rules *pb.ImageRules, image string) Signers {
	place, _ := placeOf(image)
	var signers Signers
	for _, signed := range rules.GetSigned() {
		if slices.ContainsFunc(signed.GetImages(), func(pattern string) bool { return matchesImage(pattern, place) }) {
			signers.Keys = append(signers.Keys, signed.GetKeys()...)
			signers.Identities = append(signers.Identities, signed.GetIdentities()...)
		}
	}
	return signers
}

// placeOf answers an image's name, as patterns have it, and its digest.
func placeOf(image string) (place, digest string) {
	image = strings.TrimPrefix(image, "docker://")
	if i := strings.LastIndex(image, "@"); i >= 0 {
		image, digest = image[:i], image[i+1:]
	}
	return strings.TrimPrefix(image, "index."), digest
}

// matchesImage compares a name, with and without its tag. "*" is anything without a "/",
// "**" anything.
func matchesImage(pattern, place string) bool {
	compiled, err := imagePattern(pattern)
	if err != nil {
		return false
	}
	name := place
	if i := strings.LastIndex(place, ":"); i > strings.LastIndex(place, "/") {
		name = place[:i]
	}
	return compiled.MatchString(place) || compiled.MatchString(name)
}

// patterns are those that were compiled lately: rules are asked for many jobs.
var patterns = struct {
	sync.Mutex
	known map[string]*regexp.Regexp
}{known: map[string]*regexp.Regexp{}}

func imagePattern(pattern string) (*regexp.Regexp, error) {
	patterns.Lock()
	defer patterns.Unlock()
	if known := patterns.known[pattern]; known != nil {
		return known, nil
	}
	compiled, err := compilePattern(pattern)
	if err == nil {
		if len(patterns.known) >= MaxImagePatterns*4 {
			clear(patterns.known)
		}
		patterns.known[pattern] = compiled
	}
	return compiled, err
}

func compilePattern(pattern string) (*regexp.Regexp, error) {
	var out strings.Builder
	out.WriteString("^")
	for part := range strings.SplitSeq(strings.ReplaceAll(pattern, "**", "\x00"), "") {
		switch part {
		case "\x00":
			out.WriteString(".*")
		case "*":
			out.WriteString("[^/]*")
		default:
			out.WriteString(regexp.QuoteMeta(part))
		}
	}
	return regexp.Compile(out.String() + "$")
}

var barredPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// CheckImageRules refuses rules that nothing could match, or that are too many.
func CheckImageRules(rules *pb.ImageRules, of RulesOf) error {
	if err := checkSigned(rules.GetSigned()); err != nil {
		return err
	}
	if err := checkTrustedRoot(rules, of); err != nil {
		return err
	}
	lists := map[string][]string{"allow": rules.GetAllow(), "deny": rules.GetDeny()}
	for _, signed := range rules.GetSigned() {
		lists["signed"] = append(lists["signed"], signed.GetImages()...)
	}
	for _, name := range []string{"allow", "deny", "signed"} {
		list := lists[name]
		if len(list) > MaxImagePatterns {
			return fmt.Errorf("[images] %s: %d patterns are more than %d", name, len(list), MaxImagePatterns)
		}
		for _, pattern := range list {
			if pattern == "" || len(pattern) > maxPatternBytes || strings.ContainsFunc(pattern, func(r rune) bool { return r <= ' ' || r == 0x7f }) || strings.Contains(pattern, "://") {
				return fmt.Errorf("[images] %s: %.64q is no pattern of a name, such as nvcr.io/nvidia/* or oci:/shared/**", name, pattern)
			}
		}
	}
	if len(rules.GetBarred()) > MaxImagePatterns*16 {
		return fmt.Errorf("[images] barred: %d digests are too many", len(rules.GetBarred()))
	}
	for _, digest := range rules.GetBarred() {
		if !barredPattern.MatchString(digest) {
			return fmt.Errorf("[images] barred: %.80q is no digest, sha256: and 64 hexadecimal digits", digest)
		}
	}
	return nil
}
