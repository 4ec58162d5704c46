package client

import "errors"

// Describe is what a failed call says to the user.
func Describe(err error) string {
	if unreachable := (*UnreachableError)(nil); errors.As(err, &unreachable) {
		return unreachable.Error()
	}
	return Plain(err)
}
