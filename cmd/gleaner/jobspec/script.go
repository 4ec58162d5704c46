package jobspec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
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
		text := "#!/bin/sh\n# This script was created by " + inv.Command.Program() + " --wrap.\n\n" + inv.Text(optWrap) + "\n"
		script := &batchScript{text: []byte(text), name: "wrap"}
		return script, checkScript(script.text)
	}
	if len(inv.Operands) > 0 && inv.Operands[0] == ":" {
		return nil, errHeterogeneous
	}
	if len(inv.Operands) > 0 {
		path := inv.Operands[0]
		text, err := console.ReadFile(inv.Context, path, spec.MaxScriptBytes)
		if err != nil {
			return nil, notRead(path, err)
		}
		return &batchScript{text: text, name: filepath.Base(path), path: path, arguments: inv.Operands[1:]}, checkScript(text)
	}
	if isTerminal(inv.Stdin) {
		fmt.Fprintf(inv.Stderr, "%s: type the batch script, and Ctrl-D at its end; Ctrl-C submits nothing\n", inv.Command.Program())
	}
	text, err := console.ReadStream(inv.Context, inv.Stdin, spec.MaxScriptBytes)
	if err != nil {
		return nil, notRead("", err)
	}
	return &batchScript{text: text, name: "gsubmit"}, checkScript(text)
}

// isTerminal reports whether a user types what is read.
func isTerminal(source io.Reader) bool {
	file, isFile := source.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// notRead says in sbatch's words that a script cannot be read; path is "" for
// standard input.
func notRead(path string, err error) error {
	failure, inPath := (*option.Failure)(nil), (*os.PathError)(nil)
	switch {
	case errors.As(err, &failure): // interrupted
		return err
	case !errors.As(err, &inPath) || inPath.Op != "open":
		return option.Fail(1, "Unable to read the batch script: %w", console.Reason(err))
	case path == "-":
		return option.Fail(1, "Unable to open file -\nWithout a file name the script is read from standard input")
	case errors.Is(err, os.ErrNotExist):
		return option.Fail(1, "Unable to open file %.512s", path)
	}
	return option.Fail(1, "Unable to open file %.512s: %w", path, inPath.Err)
}

// notScript are sbatch's words for what does not begin as a script does.
const notScript = "This does not look like a batch script.  The first\n" +
	"line must start with #! followed by the path to an interpreter.\nFor instance: #!/bin/sh"

// checkScript refuses what cannot be a batch script, in sbatch's words.
func checkScript(text []byte) error {
	first, _, _ := bytes.Cut(text, []byte("\n"))
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
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")):
		return option.Fail(1, "Batch script is in UTF-16, which no interpreter reads.\n"+
			"Save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8")
	case !bytes.HasPrefix(text, []byte("#!")) && bytes.IndexByte(text, 0) >= 0:
		return option.Fail(1, "%s\nIt is a program or another binary file: submit a script that starts it, or gsubmit --wrap=\"./program\"", notScript)
	case !bytes.HasPrefix(text, []byte("#!")), len(bytes.TrimSpace(first)) == len("#!"):
		return option.Fail(1, notScript)
	case bytes.IndexByte(text, 0) >= 0:
		return option.Fail(1, "The batch script contains a NUL byte: it is a program or another binary file.\n"+
			"Submit a script that starts it, or gsubmit --wrap=\"./program\"")
	case bytes.Contains(text, []byte("\r\n")):
		return option.Fail(1, "Batch script contains DOS line breaks (\\r\\n)\n"+
			"instead of expected UNIX line breaks (\\n).\nConvert it with dos2unix, or with sed -i 's/\\r$//'")
	case bytes.IndexByte(first, '\r') >= 0:
		return option.Fail(1, "Batch script contains line breaks of old Macs (\\r)\n"+
			"instead of expected UNIX line breaks (\\n).\nConvert it with tr '\\r' '\\n'")
	}
	return nil
}

// interpreterWarning says why the script will hardly start; "" if nothing
// speaks against it. It is no reason to refuse: the nodes may have what this
// machine lacks.
func interpreterWarning(text []byte) string {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	words := bytes.Fields(bytes.TrimPrefix(first, []byte("#!")))
	if len(words) == 0 {
		return ""
	}
	path := string(words[0])
	if !filepath.IsAbs(path) {
		return fmt.Sprintf("the interpreter %.128q is looked for in the job's directory: name it as in #!/bin/bash or #!/usr/bin/env python3", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("the interpreter %.128q does not exist on this machine: where it does not, the script cannot start", path)
	case err == nil && (info.IsDir() || info.Mode()&0o111 == 0):
		return fmt.Sprintf("%.128q, which is to interpret the script, is not a program on this machine: where it is not, the script cannot start", path)
	}
	return ""
}
