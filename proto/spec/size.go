package spec

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// sizeUnits are the suffixes of a size, each 1024 times the one before.
const sizeUnits = "KMGTP"

// ParseSize reads a size such as "4G", "512M", "1.5g" or "300" into bytes. A
// number without a suffix counts units of unit bytes (1<<20 for sbatch's
// --mem). The suffixes are K, M, G, T and P, powers of 1024, in either case
// and with or without a B after them. A fraction must come out at whole bytes.
func ParseSize(s string, unit uint64) (uint64, error) {
	number := strings.ToUpper(s)
	if trimmed, found := strings.CutSuffix(number, "B"); found && trimmed != "" {
		number, unit = trimmed, 1
	}
	if i := strings.IndexByte(sizeUnits, lastByte(number)); i >= 0 {
		number, unit = number[:len(number)-1], 1<<(10*(i+1))
	}
	whole, fraction, hasFraction := strings.Cut(number, ".")
	if !allDigits(whole) || hasFraction && (!allDigits(fraction) || len(fraction) > 9) {
		return 0, fmt.Errorf("invalid size %q: type a number and K, M, G or T, such as 512M or 4G", shorten(s))
	}
	n, err := strconv.ParseUint(whole, 10, 64)
	over, bytes := bits.Mul64(n, unit)
	if err != nil || over != 0 {
		return 0, fmt.Errorf("size %q is too large: at most 16383P", shorten(s))
	}
	if hasFraction {
		part, exact := fractionOf(fraction, unit)
		if !exact {
			return 0, fmt.Errorf("size %q is not a whole number of bytes: use a smaller unit, such as 1536M for 1.5G", shorten(s))
		}
		sum, carry := bits.Add64(bytes, part, 0)
		if carry != 0 {
			return 0, fmt.Errorf("size %q is too large: at most 16383P", shorten(s))
		}
		bytes = sum
	}
	return bytes, nil
}

// fractionOf is 0.digits of unit, and whether that is a whole number. digits
// has at most 9 digits.
func fractionOf(digits string, unit uint64) (uint64, bool) {
	part, _ := strconv.ParseUint(digits, 10, 64) // nine digits always fit
	scale := uint64(1)
	for range len(digits) {
		scale *= 10
	}
	high, low := bits.Mul64(part, unit)
	quotient, rest := bits.Div64(high, low, scale) // part < scale, so high < scale
	return quotient, rest == 0
}

func lastByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

// FormatSize writes bytes as squeue writes memory, "256M", "4G", "1.50G": in
// the largest unit in which the size is a whole or a half number, so that
// nothing is rounded away. A size that 512 does not divide is a plain number of
// bytes.
func FormatSize(bytes uint64) string {
	unit, half := -1, false
	for bytes >= 1024 && bytes%512 == 0 && unit+1 < len(sizeUnits) {
		half = bytes%1024 != 0
		bytes /= 1024
		unit++
		if half {
			break
		}
	}
	text := strconv.FormatUint(bytes, 10)
	if half {
		text += ".50"
	}
	if unit >= 0 {
		text += sizeUnits[unit : unit+1]
	}
	return text
}
