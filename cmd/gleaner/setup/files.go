package setup

// files are what a host without packages lacks; those of the packages say more.
var files = []struct{ name, text string }{
	{"gctld.toml", "# The controller of this host: gctld --help lists all keys.\n"},
	{"gnoded.toml", "# The node daemon of this host: gnoded --help lists all keys.\n"},
	{"cluster.toml", `# The policy of the cluster. After a change: gcontrol apply -f /etc/gleaner/cluster.toml
# A job that does not say with --mem how much memory it needs gets def_mem_per_cpu for
# each of its CPUs.
[[partition]]
name = "main"
nodes = "ALL"
default = true
def_mem_per_cpu = "2G"
`},
}

// untouched is the policy with which every cluster begins.
const untouched = `[[partition]]
name = "main"
nodes = "ALL"
default = true
`
