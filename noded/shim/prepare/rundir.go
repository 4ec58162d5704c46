package prepare

import (
	"fmt"
	"os"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// MakeRunDir makes the directory that the job sees as /run/gleaner. It
// belongs to the job's user; as long as its container has not started nobody
// else can change it.
func (j *Job) MakeRunDir() error {
	for _, path := range []string{j.Dir.Path(bundle.RunDir), j.Dir.Path(bundle.RunDir, pid1.StdioDir)} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("make the job's directory: %w", err)
		}
		if err := os.Lchown(path, int(j.User.UID), int(j.User.GID)); err != nil {
			return fmt.Errorf("give the job's directory to its user: %w", err)
		}
	}
	return j.writeRunFile("ginit", nil, 0o700) // where process 1's program is bound
}

// writeRunFile makes a file in the job's directory, of the job's user.
func (j *Job) writeRunFile(name string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(j.Dir.Path(bundle.RunDir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write a file for the job: %w", err)
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write a file for the job: %w", err)
	}
	if err := f.Chown(int(j.User.UID), int(j.User.GID)); err != nil {
		return fmt.Errorf("give a file to the job's user: %w", err)
	}
	return nil
}

func bytesOf(text string) step.Bytes { return step.Bytes(text) }
