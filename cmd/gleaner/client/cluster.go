package client

import (
	"context"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// optClusters is the option by which Slurm's commands choose clusters.
const optClusters = "clusters"

// ClusterOption is --clusters of Slurm's commands: whoever is configured to name the
// cluster names this one, and programs name all.
func ClusterOption(environment ...string) option.Option {
	return option.Option{
		Long: optClusters, Short: 'M', Argument: "name[,...]", Aliases: []string{"cluster"}, Environment: environment,
		Help: "this cluster by its name (ClusterName in gcontrol show config), or all; the controllers of another one are named with --controller",
	}
}

// FederationOptions are those of Slurm's commands that choose between the clusters of
// a federation. Slurm itself ignores them where there is none.
func FederationOptions(names ...string) []option.Option {
	var options []option.Option
	for _, name := range names {
		options = append(options, option.Option{Long: name, Help: "accepted and without effect: the cluster is in no federation"})
	}
	return options
}

// Cluster is the name of the cluster if --clusters was given, and "" if it was not. A
// name that is not this cluster's is an error in Slurm's words.
func (c *Client) Cluster(ctx context.Context, values option.Values) (string, error) {
	wanted := values.List(optClusters)
	if len(wanted) == 0 {
		return "", nil
	}
	config, err := AskOne(ctx, c, c.ShowConfig, &pb.ShowConfigRequest{})
	if err != nil {
		return "", option.Fail(1, "%s", Describe(err))
	}
	name := ""
	for _, entry := range config.GetEntries() {
		if entry.GetKey() == "ClusterName" {
			name = entry.GetValue()
		}
	}
	for _, word := range wanted {
		if !strings.EqualFold(word, name) && !strings.EqualFold(word, "all") {
			return "", option.Fail(1, "'%s' can't be reached now, or it is an invalid entry for --cluster.  Use 'sacctmgr list clusters' to see available clusters.\nThis cluster is %s; the controllers of another one are named with --controller", format.Printable(word), format.Printable(name))
		}
	}
	return name, nil
}
