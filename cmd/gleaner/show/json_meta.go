package show

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// meta is who answers, in which words: Slurm's openapi_meta, and Gleaner's own version. The
// version of Slurm is that of the commands by Slurm's names.
type meta struct {
	*metaCurrent
	Plugin  metaPlugin  `json:"plugin"`
	Gleaner metaGleaner `json:"gleaner"`
}

type metaCurrent struct {
	Client  metaClient `json:"client"`
	Command []string   `json:"command"`
	Slurm   metaSlurm  `json:"slurm"`
}

type metaPlugin struct {
	Type       string `json:"type"`
	Name       string `json:"name"`
	DataParser string `json:"data_parser"`
	Storage    string `json:"accounting_storage"`
}

type metaGleaner struct {
	Version string `json:"version"`
}

type metaClient struct {
	Source string `json:"source"`
	User   string `json:"user"`
	Group  string `json:"group"`
}

type metaSlurm struct {
	Version metaVersion `json:"version"`
	Release string      `json:"release"`
	Cluster string      `json:"cluster"`
}

type metaVersion struct {
	Major string `json:"major"`
	Micro string `json:"micro"`
	Minor string `json:"minor"`
}

// meta is what an answer in this shape says of itself.
func (s JSONShape) meta(inv *option.Invocation) *meta {
	m := &meta{
		Plugin:  metaPlugin{Type: "gleaner/" + inv.Command.Name, DataParser: "data_parser/" + s.version()},
		Gleaner: metaGleaner{inv.Version},
	}
	if s != JSONOld {
		numbers := append(strings.Split(spec.LikeSlurm, "."), "", "")
		m.metaCurrent = &metaCurrent{
			Client: metaClient{User: console.Me()}, Command: append([]string{inv.Command.Program()}, inv.Operands...),
			Slurm: metaSlurm{Version: metaVersion{Major: numbers[0], Minor: numbers[1], Micro: numbers[2]}, Release: spec.LikeSlurm, Cluster: inv.ClusterName()},
		}
	}
	return m
}
