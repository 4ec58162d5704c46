package sched

// Amounts has a number for each entry of Snapshot.TRES: CPUs, bytes of memory,
// nodes, GPUs, GPUs of a model, licenses, and billing, whose unit the
// partition's weights give.
type Amounts []int64

// Names of the TRES that every cluster has, as in AccountingStorageTRES of
// slurm.conf(5). GPUs of a model are "gres/gpu:MODEL", a license is
// "license/NAME".
const (
	TRESBilling = "billing"
	TRESCPU     = "cpu"
	TRESGPU     = "gres/gpu"
	TRESMemory  = "mem" // bytes
	TRESNode    = "node"
)
