package sign

// Question asks package keyless whether one of some identities has signed an image.
type Question struct {
	Digest     string     `json:"digest"`
	Root       []byte     `json:"root"` // trusted_root.json
	Identities []Identity `json:"identities"`
	Signatures []Signed   `json:"signatures"`
}

// Identity is who must have signed it, in the words of cosign verify. What is "" does not
// count; of subject and issuer one of the two does.
type Identity struct {
	Subject       string `json:"subject,omitempty"` // of the certificate
	SubjectRegexp string `json:"subject_regexp,omitempty"`
	Issuer        string `json:"issuer,omitempty"` // who vouched for it
	IssuerRegexp  string `json:"issuer_regexp,omitempty"`
	Predicate     string `json:"predicate,omitempty"` // the type of the attestation that is wanted instead of a signature
}

// Answer is keyless' answer.
type Answer struct {
	Identity int    `json:"identity"`      // the number of the one that has; -1 = none
	Why      string `json:"why,omitempty"` // none has
}
