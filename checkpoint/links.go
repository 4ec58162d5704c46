package checkpoint

import (
	"path/filepath"
	"slices"

	remap_file_path "github.com/checkpoint-restore/go-criu/v8/crit/images/remap-file-path"
	"github.com/checkpoint-restore/go-criu/v8/rpc"
)

// dumpedStep is what CRIU announces when the image is written and all that it made for
// that is still there.
const dumpedStep = "post-dump"

// dumped is called at each step that CRIU announces.
func (o *DumpOptions) dumped(step *rpc.CriuNotify) error {
	if o.Linked == nil || step.GetScript() != dumpedStep {
		return nil
	}
	remaps, err := readEntries[remap_file_path.RemapFilePathEntry](filepath.Join(o.Images, remapsImage))
	if err != nil || !slices.ContainsFunc(remaps, isLink) {
		return err
	}
	return o.Linked()
}

// isLink says whether a file whose path is not what it was is found by a link that CRIU
// made.
func isLink(remap *remap_file_path.RemapFilePathEntry) bool {
	return remap.RemapType != nil && remap.GetRemapType() == remap_file_path.RemapType_LINKED
}
