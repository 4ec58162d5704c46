package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// batchScript is what gsubmit is to hand in.
type batchScript struct {
	text      []byte
	name      string // default name of the job
	path      string // of its file, as the user named it; "" = it has none
	arguments []string
}

// loadScript takes the script from --wrap, the file that the first operand
// names, or standard input, and checks that it can be one.
func loadScript(inv *option.Invocation) (*batchScript, error) {
	if inv.Given(optWrap) {
		if len(inv.Operands) > 0 {
			return nil, option.Fail(1, "Script arguments not permitted with --wrap option: %q", inv.Operands[0])
		}
		text := "#!/bin/sh\n# This script was made by gsubmit --wrap.\n\n" + inv.Text(optWrap) + "\n"
		script := &batchScript{text: []byte(text), name: "wrap"}
		return script, checkScript(script.text)
	}
	script := &batchScript{name: "gsubmit"}
	source := inv.Stdin
	if len(inv.Operands) > 0 {
		path := inv.Operands[0]
		file, err := openScript(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		source, script.name, script.path, script.arguments = file, filepath.Base(path), path, inv.Operands[1:]
	}
	if len(inv.Operands) == 0 && isTerminal(inv.Stdin) {
		fmt.Fprintf(inv.Stderr, "%s: type the batch script, and Ctrl-D at its end; Ctrl-C submits nothing\n", inv.Command.Program())
	}
	var err error
	if script.text, err = readScript(inv.Context, source); err != nil {
		return nil, err
	}
	return script, checkScript(script.text)
}

// isTerminal says whether somebody types what is read.
func isTerminal(source io.Reader) bool {
	file, isFile := source.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// readScript reads up to the limit and one byte more. It does not wait for a
// terminal or a pipe that the user has given up.
func readScript(ctx context.Context, source io.Reader) ([]byte, error) {
	type outcome struct {
		text []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(source, spec.MaxScriptBytes+1))
		done <- outcome{text, err}
	}()
	select {
	case <-ctx.Done():
		return nil, option.Exit(interrupted)
	case read := <-done:
		if read.err != nil {
			return nil, option.Fail(1, "Unable to read the batch script: %w", reason(read.err))
		}
		return read.text, nil
	}
}

func openScript(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		if reason := (*os.PathError)(nil); errors.As(err, &reason) && !errors.Is(err, os.ErrNotExist) {
			return nil, option.Fail(1, "Unable to open file %s: %w", path, reason.Err)
		}
		return nil, option.Fail(1, "Unable to open file %s", path)
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		_ = file.Close()
		return nil, option.Fail(1, "Unable to open file %s: it is a directory", path)
	}
	return file, nil
}

// checkScript refuses what cannot be a batch script, in sbatch's words.
func checkScript(text []byte) error {
	switch {
	case len(text) > spec.MaxScriptBytes:
		return option.Fail(1, "Batch script is larger than %s!\nKeep large data in files and name them in the script", spec.FormatSize(spec.MaxScriptBytes))
	case len(text) == 0:
		return option.Fail(1, "Batch script is empty!")
	case len(bytes.TrimSpace(text)) == 0:
		return option.Fail(1, "Batch script contains only whitespace!")
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf#!")):
		return option.Fail(1, "Batch script begins with a byte order mark, which hides its #! from the system.\n"+
			"Save it as UTF-8 without one, or remove it with sed -i '1s/^\\xEF\\xBB\\xBF//'")
	case !bytes.HasPrefix(text, []byte("#!")):
		return option.Fail(1, "This does not look like a batch script.  The first\n"+
			"line must start with #! followed by the path to an interpreter.\nFor instance: #!/bin/sh")
	case bytes.IndexByte(text, 0) >= 0:
		return option.Fail(1, "The batch script contains a NUL byte: it is a program or another binary file.\n"+
			"Submit a script that starts it, or gsubmit --wrap=\"./program\"")
	case bytes.Contains(text, []byte("\r\n")):
		return option.Fail(1, "Batch script contains DOS line breaks (\\r\\n)\n"+
			"instead of expected UNIX line breaks (\\n).\nConvert it with dos2unix, or with sed -i 's/\\r$//'")
	}
	return nil
}
