package history

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// Choice is which runs are wanted. Conditions of different kinds must all hold, values of
// one kind are alternatives, an empty kind says nothing.
type Choice struct {
	Events   bool     // events of nodes, which began before UntilMS, instead of runs
	Jobs     []uint32 // or numbers of arrays
	UIDs     []uint32
	Users    []string
	Accounts []string
	SinceMS  int64 // not over before; 0 = no bound
	UntilMS  int64 // eligible before; 0 = no bound
	Apart    bool  // only those that Sum leaves out
}

// ErrAway is returned when the database cannot be read now.
var ErrAway = errors.New("the history database cannot be read")

// Read calls use with the chosen runs, in the order of the jobs' numbers and of a job in
// the order of its runs, up to a position but not behind last. It returns that position:
// what is behind it is in the outbox.
func (k *Keeper) Read(ctx context.Context, choice Choice, last state.Position, use func(*Found) error) (state.Position, error) {
	database, through, err := k.acquire()
	if err != nil {
		return 0, err
	}
	defer k.readers.Done()
	through = min(through, last)
	return through, k.noteTorn(database.Read(ctx, choice, through, use))
}

// acquire returns the database, and up to where it has all runs. It stays open until the
// caller says k.readers.Done.
func (k *Keeper) acquire() (store, state.Position, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.database == nil {
		return nil, 0, ErrAway
	}
	k.readers.Add(1)
	return k.database, k.Through(), nil
}

// Read implements store.
func (d *SQLite) Read(ctx context.Context, choice Choice, through state.Position, use func(*Found) error) error {
	text, arguments := choice.question(through)
	rows, err := d.read.QueryContext(ctx, text, arguments...)
	if err != nil {
		return classify(err)
	}
	return classify(pass(rows, use))
}

// question is what Read asks.
func (c *Choice) question(through state.Position) (string, []any) {
	conditions, arguments := c.sql(through)
	return "SELECT at, job, uid, run FROM runs WHERE " + conditions + " ORDER BY " + c.order(), arguments
}

// sql is the choice as conditions. A list is one argument, as JSON: the number of
// arguments of a statement is bounded.
func (c *Choice) sql(through state.Position) (string, []any) {
	conditions, arguments := []string{"+at <= ?", c.kind()}, []any{int64(through)}
	and := func(condition string, values ...any) {
		conditions, arguments = append(conditions, condition), append(arguments, values...)
	}
	const among = " IN (SELECT value FROM json_each(?))"
	if len(c.Jobs) > 0 {
		// As one condition with OR, it would not use the index of those in arrays.
		and("at IN (SELECT at FROM runs WHERE job"+among+" UNION SELECT at FROM runs WHERE array != 0 AND array"+among+")", list(c.Jobs), list(c.Jobs))
	}
	if len(c.UIDs) > 0 {
		and("uid"+among, list(c.UIDs))
	}
	if len(c.Users) > 0 {
		and("user"+among, list(c.Users))
	}
	if len(c.Accounts) > 0 {
		and("account"+among, list(c.Accounts))
	}
	if c.SinceMS != 0 {
		and("end_ms >= ?", c.SinceMS)
	}
	if c.UntilMS != 0 {
		and("eligible_ms < ?", c.UntilMS)
	}
	if c.Apart {
		and("apart != 0")
	}
	return strings.Join(conditions, " AND "), arguments
}

// order is that of the answer. A plus keeps SQLite from walking through all runs only
// because they are in order there.
func (c *Choice) order() string {
	if c.Events || len(c.Jobs)+len(c.UIDs)+len(c.Users)+len(c.Accounts) == 0 && c.SinceMS == 0 && c.UntilMS == 0 && !c.Apart {
		return "job, at"
	}
	return "+job, at"
}

// kind is the condition that tells events from runs: they are of no job.
func (c *Choice) kind() string {
	if c.Events {
		return "job = 0"
	}
	return "job != 0"
}

func list[T any](values []T) string {
	text, err := json.Marshal(values)
	if err != nil {
		return "[]" // numbers and texts can always be written
	}
	return string(text)
}

// Copy is what another controller copies: rows behind a position, and up to where they are
// complete.
func (k *Keeper) Copy(ctx context.Context, after state.Position) ([]Row, state.Position, error) {
	database, through, err := k.acquire()
	if err != nil {
		return nil, 0, err
	}
	defer k.readers.Done()
	rows, complete, err := copyOf(ctx, database, after, through, k.atOnce)
	return rows, complete, k.noteTorn(err)
}

// copyOf are rows of a database behind a position, and up to where they are complete.
func copyOf(ctx context.Context, database store, after, through state.Position, atOnce int) ([]Row, state.Position, error) {
	if through <= after {
		return nil, 0, nil
	}
	rows, err := database.After(ctx, after, atOnce, bytesAtOnce/2)
	if err != nil {
		return nil, 0, err
	}
	full := len(rows) == atOnce || sizeOf(rows) >= bytesAtOnce/2
	for len(rows) > 0 && rows[len(rows)-1].At > through {
		rows = rows[:len(rows)-1]
		full = false
	}
	if full {
		through = rows[len(rows)-1].At
	}
	return rows, through, nil
}

func sizeOf(rows []Row) int {
	bytes := 0
	for i := range rows {
		bytes += len(rows[i].Run)
	}
	return bytes
}
