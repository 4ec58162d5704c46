package main

import (
	"encoding/binary"
	"regexp"
	"strings"
	"time"
)

// followZone has times follow a TZ that says its own rules, as in EST5EDT,M3.2.0,M11.1.0
// (tzset(3)). Go reads names of zones only, and would take it for UTC without a word.
func followZone(text string) {
	if zone := ruledZone(strings.TrimPrefix(text, ":")); zone != nil {
		time.Local = zone
	}
}

// rulesBegin is the name of the standard time, and its offset.
var rulesBegin = regexp.MustCompile(`^([A-Za-z]{3,}|<[A-Za-z0-9+-]+>)[+-]?[0-9]`)

// ruledZone is the zone of rules; nil if text is the name of a zone, or neither.
func ruledZone(text string) *time.Location {
	if !rulesBegin.MatchString(text) || strings.Contains(text, "\n") {
		return nil
	}
	if _, err := time.LoadLocation(text); err == nil {
		return nil
	}
	zone, err := time.LoadLocationFromTZData(text, zoneData(text))
	if err != nil {
		return nil
	}
	// Rules that cannot be read leave the one change that the data has, to UTC.
	if name, offset := time.Unix(0, 0).In(zone).Zone(); name == "-" && offset == 0 {
		return nil
	}
	return zone
}

// zoneData is a file of tzfile(5) with one change, long ago, and the rules from then on.
func zoneData(rules string) []byte {
	block := func(data []byte, wide bool) []byte {
		data = append(data, "TZif2"...)
		data = append(data, make([]byte, 15)...)
		for _, count := range []uint32{0, 0, 0, 1, 1, 2} { // of the kinds: changes, types and letters are there
			data = binary.BigEndian.AppendUint32(data, count)
		}
		if wide {
			data = binary.BigEndian.AppendUint64(data, 1<<63|1<<62) // long ago
		} else {
			data = binary.BigEndian.AppendUint32(data, 1<<31)
		}
		data = append(data, 0)                        // the change is to type 0
		return append(data, 0, 0, 0, 0, 0, 0, '-', 0) // which is UTC, and called -
	}
	return append(block(block(nil, false), true), "\n"+rules+"\n"...)
}
