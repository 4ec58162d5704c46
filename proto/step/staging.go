package step

// StagingFile is where, in the job's directory, the program that copies files says how far
// it is, or why it failed.
const StagingFile = "staging.json"

// AwaitsHere begins what it says while it waits for a file of the submitting host.
const AwaitsHere = "waits for "

// Staging is what is in it.
type Staging struct {
	Text string `json:"text"`
}
