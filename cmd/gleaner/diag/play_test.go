package diag

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
)

func TestMain(m *testing.M) { clienttest.Patient(m) }

var stage = clienttest.Of(Command())

func TestDialogues(t *testing.T) { stage.Dialogues(t) }
