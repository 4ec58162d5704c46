package sched

// PriorityPolicy has the weights of the multifactor priority, as in Slurm's
// priority_multifactor page and slurm.conf(5). All zero: jobs go in the order
// of their numbers, less their nice values.
type PriorityPolicy struct {
	WeightAge         uint32
	WeightAssociation uint32
	WeightFairShare   uint32
	WeightJobSize     uint32
	WeightPartition   uint32
	WeightQOS         uint32
	WeightTRES        []uint32 // by Snapshot.TRES; nil = none
	MaxAgeS           uint32   // from which on the age factor is 1
	FavorSmall        bool
	// SmallRelativeToTime: size is CPUs over the minutes of the time limit.
	SmallRelativeToTime bool
	// MaxTRES: billed is the most expensive TRES of the nodes, not their sum.
	MaxTRES bool
}

// AccountingPolicy says what is enforced (slurm.conf(5),
// AccountingStorageEnforce).
type AccountingPolicy struct {
	EnforceLimits bool
	// Safe: a job starts only if it can run to its end under the limits of
	// minutes.
	Safe bool
}
