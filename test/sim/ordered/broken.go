package ordered

// Broken says what of the models is broken on purpose, to see that the checks
// notice. What is broken in the real code is in package broken.
type Broken struct {
	// NeverConfirms: a controller answers reads and grants leases without the
	// word of a majority.
	NeverConfirms bool
	// ForgetsEarly: a node deletes the result of a part before a controller
	// has said that it has it.
	ForgetsEarly bool
	// NeverLists: a node's registration leaves out the parts whose end no
	// controller has acknowledged.
	NeverLists bool
	// NoMemory: a node does not remember the parts whose end is acknowledged, so
	// that an order for one of them starts it again.
	NoMemory bool
	// SavedEarly: a node says that a part is saved before its image is durable.
	SavedEarly bool
	// RunsAnyway: a part that can not be restored starts with its script.
	RunsAnyway bool
	// KeepsLate: an order to keep images that waited is carried out as if it had just
	// come.
	KeepsLate bool
	// LeaseLetsGo: a part that stands with its image goes on when its lease is renewed.
	LeaseLetsGo bool
	// GoesOnAlone: a part of several runs as soon as it is restored.
	GoesOnAlone bool
}
