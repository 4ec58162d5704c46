package image

import (
	"bufio"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// list prints the images of nodes, and how full each cache is.
func list(inv *option.Invocation, nodes []*pb.ContainerImagesResponse) error {
	view := show.NewView(inv.Getenv, console.Clock())
	var rows []*show.ImageRow
	for _, node := range nodes {
		for _, image := range node.GetWord().GetImages() {
			rows = append(rows, &show.ImageRow{Node: node.GetNode(), Image: image, View: view})
		}
	}
	layout, err := show.ImageTable.ParseShort("%#N %#i %#d %#s %#l %#u %j")
	if err != nil {
		return err
	}
	layout.Fit(rows)
	out := bufio.NewWriter(inv.Stdout)
	if len(rows) > 0 {
		_, _ = out.Write(layout.Header(nil)) // a bufio.Writer keeps its error for Flush
	}
	for _, row := range rows {
		_, _ = out.Write(layout.Row(nil, row))
	}
	for _, node := range nodes {
		word := node.GetWord()
		if word.GetError() != "" || inv.Given(optQuiet) {
			continue
		}
		others := ""
		if n := word.GetOthers(); n > 0 {
			others = fmt.Sprintf(", %d of them of others", n)
		}
		fmt.Fprintf(out, "%s: %d images%s; %s of %s\n", format.Printable(node.GetNode()), len(word.GetImages())+int(word.GetOthers()), others, show.SizeText(word.GetUsedBytes()), show.SizeText(word.GetLimitBytes()))
	}
	return out.Flush()
}

// outcomes prints what was done, a line for each image of a node.
func outcomes(inv *option.Invocation, request *pb.ContainerImagesRequest, nodes []*pb.ContainerImagesResponse) error {
	out := bufio.NewWriter(inv.Stdout)
	for _, node := range nodes {
		for _, image := range node.GetWord().GetImages() {
			if image.GetProblem() != "" {
				continue
			}
			fmt.Fprintf(out, "%s: %s %s\n", format.Printable(node.GetNode()), format.Printable(show.ImageName(image)), outcome(request.Verb, image))
		}
	}
	return out.Flush()
}

func outcome(verb pb.ImagesVerb, image *pb.CachedImage) string {
	switch verb {
	case pb.ImagesVerb_IMAGES_VERB_REMOVE:
		return "is removed: " + show.SizeText(image.GetFreedBytes()) + " are free"
	case pb.ImagesVerb_IMAGES_VERB_VERIFY:
		if image.GetLayersThere() < image.GetLayers() {
			return fmt.Sprintf("is sound, as far as it is there: %d of %d layers", image.GetLayersThere(), image.GetLayers())
		}
		return "is sound"
	}
	return fmt.Sprintf("is there: %s in %d layers", show.SizeText(image.GetBytes()), image.GetLayers())
}
