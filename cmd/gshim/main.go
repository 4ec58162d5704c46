package main

import (
	"fmt"
	"os"

	"github.com/gleaner-hpc/gleaner/noded/shim"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Println("usage")
		os.Exit(2)
	}
	if err := shim.Main(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
