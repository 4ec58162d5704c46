package trace

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// swfFields are the columns of a line (Feitelson's definition of the Standard Workload
// Format, version 2.2), of which these are read.
const (
	swfJob       = 0
	swfSubmit    = 1
	swfRun       = 3
	swfAllocated = 4
	swfAsked     = 7 // processors
	swfRequested = 8
	swfUser      = 11
	swfGroup     = 12
	swfFields    = 18
)

// swfLine reads a line of 18 numbers.
func swfLine(line []byte) (Job, error) {
	words := bytes.Fields(line)
	if len(words) != swfFields {
		return Job{}, fieldsError(len(words), swfFields)
	}
	var numbers [swfFields]int64
	for i, word := range words {
		n, err := integer(string(word))
		if err != nil {
			return Job{}, fmt.Errorf("field %d: %w", i+1, err)
		}
		numbers[i] = n
	}
	processors := numbers[swfAllocated]
	if processors <= 0 && numbers[swfRun] > 0 {
		processors = numbers[swfAsked] // it ran, and nobody noted on how many
	}
	job, err := normal(numbers[swfJob], numbers[swfSubmit], numbers[swfRun], numbers[swfRequested], processors)
	if user := numbers[swfUser]; user >= 0 {
		job.User = strconv.FormatInt(user, 10)
	}
	if group := numbers[swfGroup]; group >= 0 {
		job.Account = strconv.FormatInt(group, 10)
	}
	return job, err
}

// fieldsError is about a line that has more or fewer fields than it should.
func fieldsError(has, should int) error {
	if has == 1 {
		return fmt.Errorf("it has 1 field and not %d", should)
	}
	return fmt.Errorf("it has %d fields and not %d", has, should)
}

// integer reads a number, of which a fraction is dropped: some traces have times such as
// 12.5.
func integer(word string) (int64, error) {
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n, nil
	} else if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%.40q is too large", word)
	}
	f, err := strconv.ParseFloat(word, 64)
	switch {
	case err != nil || f != f:
		return 0, fmt.Errorf("%.40q is no number", word)
	case f < -maxS || f > maxS:
		return 0, fmt.Errorf("%.40q is too large", word)
	}
	return int64(f), nil
}
