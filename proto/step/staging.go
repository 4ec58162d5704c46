package step

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// StagingFile is where, in the job's directory, the program that copies files says how far
// it is, or why it failed.
const StagingFile = "staging.json"

const (
	// AwaitsHere begins what it says while it waits for a file of the submitting host.
	AwaitsHere = "waits for "
	// AwaitsFetch begins what it says while results wait to be fetched from there.
	AwaitsFetch = "waits to be fetched: "
)

// Staging is what is in it.
type Staging struct {
	Text string `json:"text"`
}

// FetchedFile is the name, in the job's directory, of a file that says that all of what is at
// a path has been fetched.
func FetchedFile(path string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(path)))
	return "fetched-" + hex.EncodeToString(sum[:16])
}
