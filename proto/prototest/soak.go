package prototest

import "os"

// Soak is how long a test of chance continues: usual in make test, which has to
// stay quick, and long in make soak, which has the time to find what is rare.
func Soak[T any](usual, long T) T {
	if os.Getenv("SOAK") != "" {
		return long
	}
	return usual
}
