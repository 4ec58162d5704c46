package clusterfile

import (
	"bytes"
	"errors"

	"github.com/pelletier/go-toml/v2"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// imagesFile says which container images jobs may have.
type imagesFile struct {
	Allow  []string `toml:"allow"`
	Deny   []string `toml:"deny"`
	Barred []string `toml:"barred"`
	Signed []struct {
		Images []string `toml:"images"`
		Keys   []string `toml:"keys"`
	} `toml:"signed"`
}

// ParseImages reads a file that has [images] of cluster.toml and nothing else: an owner's
// rules for guests.
func ParseImages(text []byte) (*pb.ImageRules, error) {
	var file struct {
		Images imagesFile `toml:"images"`
	}
	decoder := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, tomlError(err)
	}
	rules, err := file.Images.rules()
	if err == nil && rules == nil {
		err = errors.New("there are no rules in it: write [images] and allow = [...], as in cluster.toml")
	}
	return rules, err
}

// rules are nil if every image is allowed.
func (f *imagesFile) rules() (*pb.ImageRules, error) {
	if len(f.Allow)+len(f.Deny)+len(f.Barred)+len(f.Signed) == 0 {
		return nil, nil
	}
	rules := &pb.ImageRules{Allow: f.Allow, Deny: f.Deny, Barred: f.Barred}
	for _, signed := range f.Signed {
		rules.Signed = append(rules.Signed, &pb.SignedImages{Images: signed.Images, Keys: signed.Keys})
	}
	return rules, spec.CheckImageRules(rules)
}
