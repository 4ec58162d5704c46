package bundle

// Misfit is why an allocation could not resume here; without a property it could.
type Misfit struct {
	Property string `json:"property"`
	Reason   string `json:"reason"` // in a sentence
}
