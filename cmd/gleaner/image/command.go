// Package image is gimage: it shows, pulls, examines and removes container images in the
// caches of nodes. What a job does before it starts, gimage pull does ahead.
package image

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

const (
	optNodes     = "nodes"
	optPartition = "partition"
	optQuiet     = "quiet"
)

// Command is the table of gimage.
func Command() *option.Command {
	return &option.Command{
		Name: "image", Standalone: true, Summary: "show and pull container images that nodes keep", Usage: "[options] [list [nodes] | pull image | verify [image] | rm image]",
		Description: []string{
			"A node unpacks the layers of a container image once, and keeps them for the next job (--image of gsubmit). gimage list shows which images the nodes have that came for you. Operators and administrators see all, and so do the coordinators of the account that owns a node. Without nodes it shows those of all nodes.",
			"gimage pull brings an image to nodes before a job needs it, as you: with your credentials, under the rules of the site ([images] in cluster.toml) and of the nodes' owners (glend). Without --nodes and --partition it goes to the nodes of the default partition. It waits until the image is there; if it is interrupted, the nodes give up too.",
			"gimage verify reads what is there of an image, and compares it with what was unpacked. Without an image it reads all that you see.",
			"gimage rm removes an image and the layers that no other image has. An image that a job has as its root stays, and the job is named. Who may: operators and administrators, and the coordinators of the account that owns the node. What no job uses makes room by itself, the longest unused first, so that this is seldom needed.",
			"An image is named as for gsubmit, or by its digest. Without a tag, verify and rm mean all that have the name.",
		},
		Operands: []option.Variable{
			{Name: "list", Help: "the images that nodes have (also without a word); nodes as in n1 or n[1-4]"}, {Name: "pull", Help: "bring an image to nodes"},
			{Name: "verify", Help: "read images, and compare them"}, {Name: "rm", Help: "remove an image"},
		},
		Options: []option.Option{
			{Long: optNodes, Short: 'n', Argument: "nodes", Help: "only these nodes, as in n1 or n[1-4]"},
			{Long: optPartition, Short: 'p', Argument: "partition[,...]", Help: "only nodes of these partitions"},
			{Long: optQuiet, Short: 'q', Help: "print nothing but errors, and no progress"},
			show.JSONOption(),
			show.YAMLOption(),
		},
		Examples: []option.Example{
			{Text: "which of my images are where?", Command: "gimage"},
			{Text: "have an image on all nodes of a partition before the course begins", Command: "gimage pull --partition=course nvcr.io/nvidia/pytorch:24.05-py3"},
			{Text: "is what two nodes have of it sound?", Command: "gimage verify --nodes=n[1-2] nvcr.io/nvidia/pytorch"},
			{Text: "make room on a node", Command: "gimage rm --nodes=n1 nvcr.io/nvidia/pytorch:23.01-py3"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "it is done on all nodes"},
			{Status: "1", Help: "it is refused, or was not done on a node, which is named"},
		},
		SeeAlso: []string{"gsubmit", "glend", "ginfo"},
		Run:     images,
	}
}
