package show

import (
	"encoding/json"
	"math"
)

// Real is a number that may be unset or infinite, in the shape of optional.
type Real struct {
	Shape  JSONShape
	Number *float64
}

// MarshalJSON writes the number in its shape.
func (r Real) MarshalJSON() ([]byte, error) {
	set := r.Number != nil && !math.IsNaN(*r.Number)
	infinite := set && math.IsInf(*r.Number, 0)
	number := 0.0
	if set && !infinite {
		number = *r.Number
	}
	if r.Shape == JSONOld {
		if !set || infinite {
			return []byte("null"), nil
		}
		return json.Marshal(number)
	}
	return json.Marshal(struct {
		Set      bool    `json:"set"`
		Infinite bool    `json:"infinite"`
		Number   float64 `json:"number"`
	}{set && !infinite, infinite, number})
}

// Finite is 0 for what JSON cannot write.
func Finite(n float64) float64 {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}
