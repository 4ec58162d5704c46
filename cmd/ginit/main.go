// Command ginit is process 1 inside every job's container. It is built
// without cgo, so that it runs in any root: CGO_ENABLED=0 go build.
package main

import (
	"os"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
)

func main() { os.Exit(pid1.Main(os.Args)) }
