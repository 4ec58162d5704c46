package show

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file shows container images in the caches of nodes.

// ImageRow is an image on a node.
type ImageRow struct {
	Node  string
	Image *pb.CachedImage
	View  *View
}

// ImageTable is what can be shown of them.
var ImageTable = format.NewTable([]format.Field[*ImageRow]{
	imageField('N', "NODE", func(r *ImageRow) string { return r.Node }),
	imageField('i', "IMAGE", func(r *ImageRow) string { return imagePlace(r.Image) }),
	imageField('d', "DIGEST", func(r *ImageRow) string { return shortDigest(r.Image.GetDigest()) }),
	imageField('s', "SIZE", func(r *ImageRow) string { return SizeText(r.Image.GetBytes()) }),
	imageField('l', "LAYERS", func(r *ImageRow) string {
		return fmt.Sprintf("%d/%d", r.Image.GetLayersThere(), r.Image.GetLayers())
	}),
	imageField('u', "USED", func(r *ImageRow) string { return r.View.Stamp(r.Image.GetUsedMs(), "-") }),
	imageField('j', "JOBS", func(r *ImageRow) string { return orDash(jobNumbers(r.Image.GetJobs())) }),
})

func imageField(letter byte, header string, value func(*ImageRow) string) format.Field[*ImageRow] {
	return format.Field[*ImageRow]{Letter: letter, Names: []string{header}, Header: header, Value: value}
}

// ImageName is the first name of an image, pinned.
func ImageName(image *pb.CachedImage) string {
	if names := image.GetNames(); len(names) > 0 {
		return strings.TrimPrefix(names[0], "docker://")
	}
	return image.GetDigest()
}

// imagePlace is an image's names without its digest.
func imagePlace(image *pb.CachedImage) string {
	var places []string
	for _, name := range image.GetNames() {
		r, err := ref.ParsePinned(name)
		if err != nil {
			continue
		}
		r.Digest = ""
		places = append(places, strings.TrimPrefix(r.String(), "docker://"))
	}
	return orDash(strings.Join(places, ","))
}

func shortDigest(digest string) string {
	const shown = len("sha256:") + 12
	return digest[:min(len(digest), shown)]
}

func jobNumbers(jobs []uint32) string {
	var texts []string
	for _, id := range jobs {
		texts = append(texts, fmt.Sprint(id))
	}
	return strings.Join(texts, ",")
}

// NodeImagesJSON is what a node said of its images, as JSON.
type NodeImagesJSON struct {
	Node       string             `json:"node"`
	Error      string             `json:"error"` // "" = none
	UsedBytes  uint64             `json:"used_bytes"`
	LimitBytes uint64             `json:"limit_bytes"`
	Others     uint32             `json:"others"` // images that came for others only
	Images     []*CachedImageJSON `json:"images"`
}

// CachedImageJSON is an image on a node.
type CachedImageJSON struct {
	Digest      string   `json:"digest"`
	Names       []string `json:"names"`
	Bytes       uint64   `json:"bytes"`
	Layers      uint32   `json:"layers"`
	LayersThere uint32   `json:"layers_there"`
	UsedMs      int64    `json:"used_ms"` // 0 = unknown
	Jobs        []uint32 `json:"jobs"`
	Problem     string   `json:"problem"` // "" = none
	FreedBytes  uint64   `json:"freed_bytes"`
}

// NodeImagesJSONOf is a node's answer as JSON.
func NodeImagesJSONOf(node *pb.ContainerImagesResponse) *NodeImagesJSON {
	word := node.GetWord()
	record := &NodeImagesJSON{
		Node: node.GetNode(), Error: word.GetError(), UsedBytes: word.GetUsedBytes(), LimitBytes: word.GetLimitBytes(), Others: word.GetOthers(),
		Images: []*CachedImageJSON{},
	}
	for _, image := range word.GetImages() {
		record.Images = append(record.Images, &CachedImageJSON{
			Digest: image.GetDigest(), Names: append([]string{}, image.GetNames()...), Bytes: image.GetBytes(), Layers: image.GetLayers(), LayersThere: image.GetLayersThere(),
			UsedMs: image.GetUsedMs(), Jobs: append([]uint32{}, image.GetJobs()...), Problem: image.GetProblem(), FreedBytes: image.GetFreedBytes(),
		})
	}
	return record
}
