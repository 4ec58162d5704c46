package history

import (
	"strings"
	"testing"
	"time"
)

func at(s int) time.Duration { return time.Duration(s) * time.Second }

func op(kind Kind, from, to int, phase Phase, epoch uint32) Operation {
	return Operation{Kind: kind, Job: 7, Call: at(from), Return: at(to), Phase: phase, Epoch: epoch, Done: phase != Missing}
}

func TestRightAndWrong(t *testing.T) {
	submit := op(Submit, 0, 1, Waiting, 0)
	lost := submit
	lost.Unknown = true
	lostCancel := op(Cancel, 2, 3, Waiting, 0)
	lostCancel.Unknown = true
	purged := op(Query, 90, 91, Missing, 0)
	purged.Forgotten = true
	for _, c := range []struct {
		name  string
		right bool
		ops   []Operation
	}{
		{"a life", true, []Operation{submit, op(Query, 2, 3, Waiting, 0), op(Query, 4, 5, Running, 1), op(Query, 6, 7, Over, 1), purged}},
		{"missing after its answer", false, []Operation{submit, op(Query, 2, 3, Missing, 0)}},
		{"missing while it is submitted", true, []Operation{submit, op(Query, 0, 3, Missing, 0)}},
		{"seen before its answer", true, []Operation{lost, op(Query, 2, 3, Waiting, 0)}},
		{"seen, then missing", false, []Operation{lost, op(Query, 2, 3, Waiting, 0), op(Query, 4, 5, Missing, 0)}},
		{"a run that counts down", false, []Operation{submit, op(Query, 2, 3, Running, 2), op(Query, 4, 5, Running, 1)}},
		{"runs after it was over", false, []Operation{submit, op(Query, 2, 3, Over, 1), op(Query, 4, 5, Running, 1)}},
		{"runs after a requeue", true, []Operation{submit, op(Query, 2, 3, Over, 1), op(Requeue, 4, 5, Over, 1), op(Query, 6, 7, Running, 2)}},
		{"waits after a cancel", false, []Operation{submit, op(Cancel, 2, 3, Waiting, 0), op(Query, 4, 5, Waiting, 0)}},
		{"waits beside a cancel", true, []Operation{submit, op(Cancel, 2, 5, Waiting, 0), op(Query, 3, 4, Waiting, 0)}},
		{"a cancel without an answer, late", true, []Operation{submit, lostCancel, op(Query, 4, 5, Running, 1), op(Query, 6, 7, Ending, 1)}},
		{"two queries that do not agree", false, []Operation{submit, op(Query, 2, 4, Over, 1), op(Query, 5, 9, Running, 1)}},
		{"two queries at once", true, []Operation{submit, op(Query, 2, 6, Over, 1), op(Query, 5, 9, Running, 1)}},
	} {
		err := Check(c.ops)
		if (err == nil) != c.right {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "job 7") {
			t.Errorf("%s: the error does not name the job: %v", c.name, err)
		}
	}
}
