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
}
