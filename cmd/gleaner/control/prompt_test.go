package control

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
)

// TestPrompts: on a terminal gcontrol apply asks, and only a yes is one.
func TestPrompts(t *testing.T) {
	policy := clienttest.WriteFile(t, t.TempDir()+"/cluster.toml", "[[partition]]\nname = \"main\"\ndefault = true\n")
	stage.Prompts(t, "gcontrol apply -f "+policy, "[y/N]", "nothing was changed")
}
