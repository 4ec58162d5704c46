package queue

// The formats of gqueue, those of squeue(1).
const (
	queueFormat      = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	queueLongFormat  = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	queueStartFormat = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
	queueStateFormat = "%.18i %.2t"
	queueSort        = "P,t,-p"
)
