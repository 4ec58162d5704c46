// Gctld is the controller daemon of Gleaner.
package main

import (
	"fmt"
	"os"

	"github.com/gleaner-hpc/gleaner/ctld"
)

// version is set when a release is built.
var version = "0.1.0"

func main() {
	if err := ctld.Command(version).Run(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "gctld: %v\n", err)
		os.Exit(1)
	}
}
