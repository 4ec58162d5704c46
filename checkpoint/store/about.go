package store

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// maxFileName is what every file system takes.
const maxFileName = 255

// imageName answers the name of an image's directory, which says all that
// About has: digest, job, epoch, number, uid, time in ms, bytes and node.
func imageName(m *checkpoint.Manifest, digest checkpoint.Digest) (string, error) {
	name := fmt.Sprintf("%s.%d.%d.%d.%d.%d.%d.%s", digest, m.Job, m.Epoch, m.Number, m.UID, m.SavedMS, m.Bytes(), url.PathEscape(m.Node))
	if len(name) > maxFileName {
		return "", fmt.Errorf("%w: the name of node %s is too long", checkpoint.ErrManifest, m.Node)
	}
	return name, nil
}

// parseAbout reads what imageName wrote.
func parseAbout(name string) (About, bool) {
	fields := strings.SplitN(name, ".", 8)
	if len(fields) != 8 {
		return About{}, false
	}
	a := About{}
	if a.Digest.UnmarshalText([]byte(fields[0])) != nil {
		return About{}, false
	}
	for i, into := range []*uint32{&a.Job, &a.Epoch, &a.Number, &a.UID} {
		n, err := strconv.ParseUint(fields[1+i], 10, 32)
		if err != nil {
			return About{}, false
		}
		*into = uint32(n)
	}
	saved, errSaved := strconv.ParseInt(fields[5], 10, 64)
	bytes, errBytes := strconv.ParseInt(fields[6], 10, 64)
	node, errNode := url.PathUnescape(fields[7])
	if errSaved != nil || errBytes != nil || bytes < 0 || errNode != nil || url.PathEscape(node) != fields[7] {
		return About{}, false
	}
	a.Saved, a.Bytes, a.Node = time.UnixMilli(saved), bytes, node
	return a, true
}
