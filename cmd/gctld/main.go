// Command gctld is the controller daemon: it reads flags and a configuration
// and hands over to package ctld. It promises to say "ready" in its log once it
// serves, and to stop cleanly on TERM; it needs a data directory of its own.
package main

import (
	"fmt"
	"os"

	"github.com/gleaner-hpc/gleaner/ctld"
)

// version is set when a release is built.
var version = "unversioned"

func main() {
	if err := ctld.Command(version).Run(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "gctld: %v\n", err)
		os.Exit(1)
	}
}
