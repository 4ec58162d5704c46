package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gleaner-hpc/gleaner/noded/container/programs"
)

// leastGood is how many of 100 migrations have to be good.
const leastGood = 99

// row is what is known of one program.
type row struct {
	program *programs.Program
	missing string // of this machine; then there is nothing else
	runs    []*run // that were disturbed
	err     error
}

// table has a row for each program.
type table []*row

// counts are migrations that were asked for, and those that were good.
func (r *row) counts() (asked, good int) {
	for _, run := range r.runs {
		asked += len(run.moves)
		if run.err == nil && run.difference == "" {
			for _, m := range run.moves {
				if m.Done {
					good++
				}
			}
		}
	}
	return asked, good
}

// failures are sentences.
func (r *row) failures() (all []string) {
	if r.err != nil {
		all = append(all, r.err.Error())
	}
	for _, run := range r.runs {
		if run.err != nil {
			all = append(all, run.name+": "+run.err.Error())
		}
		for i, m := range run.moves {
			if !m.Done {
				all = append(all, fmt.Sprintf("%s: migration %d: %s", run.name, i+1, m.Error))
			}
		}
		if run.difference != "" {
			all = append(all, run.name+": "+run.difference)
		}
	}
	return all
}

func (r *row) verdict() string {
	failures := r.failures()
	switch {
	case r.missing != "":
		return "left out: needs " + r.missing
	case len(failures) > 0:
		return "WRONG: " + strings.Join(failures, "; ")
	case r.program.Nodes > 1:
		return "refused, and requeued together: same"
	case r.program.Refused != nil:
		return "refused, and ran on: same"
	}
	return "same"
}

// figures are the milliseconds that the job was frozen, in order, and the size
// of its largest image.
func (r *row) figures() (stood []uint64, largest uint64) {
	for _, run := range r.runs {
		for _, m := range run.moves {
			if m.Done {
				stood = append(stood, m.StandingMs)
				largest = max(largest, m.Bytes)
			}
		}
	}
	slices.Sort(stood)
	return stood, largest
}

var headings = []string{"PROGRAM", "MIGRATIONS", "GOOD", "STOOD MS", "MOST", "IMAGE BYTES", "VERDICT"}

// cells are the columns of a row.
func (r *row) cells() []string {
	asked, good := r.counts()
	cells := []string{r.program.Title, "-", "-", "-", "-", "-", r.verdict()}
	if asked > 0 {
		cells[1], cells[2] = fmt.Sprint(asked), fmt.Sprint(good)
	}
	if stood, largest := r.figures(); len(stood) > 0 {
		cells[3], cells[4], cells[5] = fmt.Sprint(stood[len(stood)/2]), fmt.Sprint(stood[len(stood)-1]), fmt.Sprint(largest)
	}
	return cells
}

// totals of all rows.
type totals struct{ programs, asked, good, refused, missing, wrong int }

func (t table) totals() (sum totals) {
	for _, r := range t {
		asked, good := r.counts()
		sum.asked, sum.good = sum.asked+asked, sum.good+good
		switch {
		case r.missing != "":
			sum.missing++
		case asked > 0:
			sum.programs++
		case len(r.failures()) == 0:
			sum.refused++
		}
		if len(r.failures()) > 0 {
			sum.wrong++
		}
	}
	return sum
}

func (s totals) sentence() string {
	percent := float64(s.good) * 100 / float64(cmp.Or(s.asked, 1))
	return fmt.Sprintf("%d migrations of %d programs: %d (%.1f %%) ended with the output, the files and the exit status of an undisturbed run; "+
		"%d programs that cannot be saved were refused with the reason; %d were left out", s.asked, s.programs, s.good, percent, s.refused, s.missing)
}

// verdict is nil if what the command promises holds.
func (t table) verdict() error {
	sum := t.totals()
	var all []error
	if sum.asked == 0 && sum.refused == 0 {
		all = append(all, errors.New("nothing was moved"))
	}
	if sum.good*100 < sum.asked*leastGood {
		all = append(all, fmt.Errorf("fewer than %d in 100 were good", leastGood))
	}
	for _, r := range t {
		if asked, _ := r.counts(); asked == 0 && len(r.failures()) > 0 {
			all = append(all, fmt.Errorf("%s: %s", r.program.Name, r.verdict()))
		}
	}
	return errors.Join(all...)
}

func (t table) writeText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(headings, "\t"))
	for _, r := range t {
		fmt.Fprintln(w, strings.Join(r.cells(), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", t.totals().sentence())
	return err
}

func (t table) writeMarkdown(out io.Writer) error {
	fmt.Fprintln(out, "| program | migrations | good | frozen, ms: median | most | largest image, bytes | result |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|---|")
	for _, r := range t {
		fmt.Fprintln(out, "| "+strings.Join(r.cells(), " | ")+" |")
	}
	_, err := fmt.Fprintf(out, "\n%s.\n", t.totals().sentence())
	return err
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
