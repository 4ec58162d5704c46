package bundle

import (
	"path/filepath"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// ReadStaging answers what the program that copies a job's files says of that in the
// directory that it shares with its supervisor; "" = nothing.
func ReadStaging(run string) string {
	var said step.Staging
	if readJobFile(filepath.Join(run, step.StagingFile), &said) != nil {
		return ""
	}
	return Clip(said.Text)
}
