package spec

// LikeSlurm is the version of Slurm whose words commands have that are called by
// Slurm's names. Programs read it to know what they may ask for.
const LikeSlurm = "24.05.0"
