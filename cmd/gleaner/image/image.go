package image

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

var verbs = map[string]pb.ImagesVerb{
	"list": pb.ImagesVerb_IMAGES_VERB_LIST, "pull": pb.ImagesVerb_IMAGES_VERB_PULL,
	"verify": pb.ImagesVerb_IMAGES_VERB_VERIFY, "rm": pb.ImagesVerb_IMAGES_VERB_REMOVE,
}

// images is gimage.
func images(inv *option.Invocation) error {
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	request, err := requestOf(inv)
	if err != nil {
		return err
	}
	nodes, err := ask(inv, request)
	if err != nil {
		return err
	}
	if err := console.Output(tell(inv, shape, request, nodes)); err != nil {
		return err
	}
	return complain(inv, request, nodes)
}

// requestOf is what the command line asks for.
func requestOf(inv *option.Invocation) (*pb.ContainerImagesRequest, error) {
	words := inv.Operands
	if len(words) == 0 {
		words = []string{"list"}
	}
	verb, known := verbs[words[0]]
	if !known {
		return nil, inv.Fail("Unrecognized option: %s\nType gimage list, pull, verify or rm", words[0])
	}
	request := &pb.ContainerImagesRequest{Verb: verb, Nodes: inv.Text(optNodes)}
	words = words[1:]
	if verb == pb.ImagesVerb_IMAGES_VERB_LIST && len(words) > 0 {
		if request.Nodes != "" {
			return nil, inv.Fail("nodes are given twice: type gimage list %s, or --nodes", words[0])
		}
		request.Nodes, words = strings.Join(words, ","), nil
	}
	if len(words) > 1 {
		return nil, inv.Fail("Unrecognized option: %s\nName one image", words[1])
	}
	if request.Nodes != "" {
		list, err := spec.ParseHostList(request.Nodes)
		if err != nil || len(list) == 0 {
			return nil, inv.Fail("Invalid node name specified: %.100s", console.Quoted(request.Nodes))
		}
		request.Nodes = spec.FormatHostList(list)
	}
	for name := range strings.SplitSeq(inv.Text(optPartition), ",") {
		if name != "" {
			request.Partitions = append(request.Partitions, name)
		}
	}
	if len(words) == 1 {
		return request, nameImage(inv, request, words[0])
	}
	if verb == pb.ImagesVerb_IMAGES_VERB_PULL || verb == pb.ImagesVerb_IMAGES_VERB_REMOVE {
		return nil, inv.Fail("no image is named: gimage list shows those that are there")
	}
	return request, nil
}

// nameImage reads the name of an image. One that is to be pulled is pinned, as for a job.
func nameImage(inv *option.Invocation, request *pb.ContainerImagesRequest, text string) error {
	if request.Verb != pb.ImagesVerb_IMAGES_VERB_PULL && strings.HasPrefix(text, "sha256:") {
		if _, err := ref.Parse("xx/yy@"+text, ""); err != nil {
			return inv.Fail("%.100s is no digest: it is sha256: and 64 hexadecimal digits, as gimage list --json shows", console.Quoted(text))
		}
		request.Image = text
		return nil
	}
	directory, err := os.Getwd()
	if err != nil {
		return option.Fail(1, "the current directory is unknown: %w", err)
	}
	r, err := ref.Parse(text, directory)
	if err != nil {
		return inv.Fail("%w", err)
	}
	if request.Verb != pb.ImagesVerb_IMAGES_VERB_PULL {
		if request.Image = text; r.Kind != ref.Registry {
			request.Image = r.String()
		}
		return nil
	}
	for _, name := range spec.RegistryVariables {
		if value := inv.Getenv(name); value != "" {
			request.Environment = append(request.Environment, name+"="+value)
		}
	}
	if request.Image, err = jobspec.PinImage(r.String()); err != nil {
		return option.Fail(1, "%w", err)
	}
	return nil
}

// ask does what is asked, and answers the outcome of each node, by name.
func ask(inv *option.Invocation, request *pb.ContainerImagesRequest) ([]*pb.ContainerImagesResponse, error) {
	controller, err := client.Connect(inv)
	if err != nil {
		return nil, err
	}
	defer controller.Close()
	progress := console.NewProgress(inv)
	defer progress.Clear()
	var nodes []*pb.ContainerImagesResponse
	restart := func() bool { nodes = nil; return true }
	err = client.List(inv.Context, controller, controller.ContainerImages, request, restart, func(said *pb.ContainerImagesResponse) error {
		switch {
		case said.GetWord().GetDone():
			nodes = append(nodes, said)
		case said.GetWord().GetProgress() != "":
			progress.Show("%s: %s", said.GetNode(), said.GetWord().GetProgress())
		}
		return nil
	})
	if inv.Context.Err() != nil {
		return nil, option.Exit(console.Interrupted)
	}
	if err != nil {
		return nil, option.Fail(1, "%s", client.Describe(err))
	}
	slices.SortFunc(nodes, func(a, b *pb.ContainerImagesResponse) int { return cmp.Compare(a.GetNode(), b.GetNode()) })
	return nodes, nil
}

// tell prints what came of it.
func tell(inv *option.Invocation, shape show.JSONShape, request *pb.ContainerImagesRequest, nodes []*pb.ContainerImagesResponse) error {
	switch {
	case shape != show.JSONNone:
		records := make([]*show.NodeImagesJSON, 0, len(nodes))
		for _, node := range nodes {
			records = append(records, show.NodeImagesJSONOf(node))
		}
		return show.WriteJSON(inv, shape, "nodes", records)
	case request.Verb == pb.ImagesVerb_IMAGES_VERB_LIST:
		return list(inv, nodes)
	case inv.Given(optQuiet):
		return nil
	}
	return outcomes(inv, request, nodes)
}

// complain says what was not done, and where.
func complain(inv *option.Invocation, request *pb.ContainerImagesRequest, nodes []*pb.ContainerImagesResponse) error {
	failed, met := false, 0
	say := func(node, format_ string, arguments ...any) {
		failed = true
		fmt.Fprintf(inv.Stderr, "%s: error: %s: %s\n", inv.Command.Program(), format.Printable(node), format.Printable(fmt.Sprintf(format_, arguments...)))
	}
	for _, node := range nodes {
		word := node.GetWord()
		met += len(word.GetImages())
		if word.GetError() != "" {
			say(node.GetNode(), "%s", word.GetError())
			continue
		}
		for _, image := range word.GetImages() {
			if image.GetProblem() != "" {
				say(node.GetNode(), "%s: %s", show.ImageName(image), image.GetProblem())
			}
		}
	}
	if request.Image != "" && met == 0 && !failed {
		return option.Fail(1, "no such image on %s: gimage list shows those that are there", namesOf(nodes))
	}
	if failed {
		return option.Exit(1)
	}
	return nil
}

func namesOf(nodes []*pb.ContainerImagesResponse) string {
	var names []string
	for _, node := range nodes {
		names = append(names, node.GetNode())
	}
	return spec.FormatHostList(names)
}
