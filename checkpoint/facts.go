package checkpoint

import (
	"crypto/sha256"
	"slices"
)

// Facts answers what a machine needs to know to say whether it could resume the
// image: everything except the contents. The sums of chunks and of carried files
// are left out as well, because each would prove a guess at the content. So
// the digest of facts is not the image's: whoever restores the image reads and
// checks the manifest itself.
//
// The paths of the files that were mapped or open are facts.
func (m *Manifest) Facts() *Manifest {
	facts := *m
	facts.Data = m.DataBytes()
	facts.Parts, facts.Files = slices.Clone(m.Parts), slices.Clone(m.Files)
	for i := range facts.Parts {
		facts.Parts[i].Chunks = nil
	}
	for i := range facts.Files {
		if facts.Files[i].Carried != "" {
			facts.Files[i].SHA256 = Digest{}
		}
	}
	return &facts
}

// DecodeFacts reads the facts of an image that another node tells. Nothing
// proves them: they are good enough for an answer, not for a restore.
func DecodeFacts(data []byte) (*Manifest, error) {
	m, err := DecodeManifest(data, sha256.Sum256(data))
	if err != nil {
		return nil, err
	}
	return m.Facts(), nil
}
