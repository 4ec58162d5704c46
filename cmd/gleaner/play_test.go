package main

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
)

func TestMain(m *testing.M) { clienttest.Patient(m) }

// stage runs command lines of all commands.
var (
	stage                     = clienttest.Player{Dispatch: dispatch}
	typed, command, commandIn = stage.Typed, stage.Command, stage.CommandIn
)
