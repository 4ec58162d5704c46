package trace

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
)

// csvColumns says in which field of a line each column is; -1 = the trace does not have
// it.
type csvColumns struct{ fields, job, submit, run, requested, processors, user, account, least int }

// csvNames are the columns that are read, each with the other names it goes by.
var csvNames = [][]string{
	{"job_id"}, {"submit", "submit_s"}, {"run", "duration_s"}, {"est", "limit", "requested"}, {"procs", "processors", "gpus"}, {"user"}, {"account", "vc"}, {"time_min"},
}

// csvHeader reads the names of the columns, if the line has them.
func csvHeader(line []byte) (columns csvColumns, is bool, err error) {
	names, err := csvFields(line)
	if err != nil || !slices.Contains(names, "job_id") {
		return csvColumns{}, false, nil
	}
	at := make([]int, len(csvNames))
	for i, words := range csvNames {
		at[i] = slices.IndexFunc(names, func(name string) bool { return slices.Contains(words, name) })
		if at[i] < 0 && i < 3 {
			return csvColumns{}, false, fmt.Errorf("there is no column %s; name at least job_id, submit and run", words[0])
		}
	}
	return csvColumns{len(names), at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]}, true, nil
}

func csvFields(line []byte) ([]string, error) {
	reader := csv.NewReader(bytes.NewReader(line))
	reader.TrimLeadingSpace = true
	return reader.Read()
}

// line reads a job. Without a column of estimates its limit is its run time; without
// one of processors it has one.
func (c csvColumns) line(line []byte) (Job, error) {
	words, err := csvFields(line)
	if err != nil {
		return Job{}, fmt.Errorf("it is not CSV: %w", err)
	}
	if len(words) != c.fields {
		return Job{}, fieldsError(len(words), c.fields)
	}
	number := func(at int, otherwise int64) int64 {
		if at < 0 || err != nil {
			return otherwise
		}
		n, failed := integer(strings.TrimSpace(words[at]))
		if failed != nil {
			err = fmt.Errorf("field %d: %w", at+1, failed)
		}
		return n
	}
	id, submit, run := number(c.job, 0), number(c.submit, 0), number(c.run, 0)
	requested, processors := number(c.requested, -1), number(c.processors, 1)
	least := number(c.least, 0)
	if err != nil {
		return Job{}, err
	}
	job, err := normal(id, submit, run, requested, processors)
	if job.LeastS = max(least, 0); err == nil && job.LeastS > job.EstimateS {
		return Job{}, fmt.Errorf("its time_min of %d seconds is more than its time limit of %d", least, job.EstimateS)
	}
	if c.user >= 0 {
		job.User = words[c.user]
	}
	if c.account >= 0 {
		job.Account = words[c.account]
	}
	return job, err
}
