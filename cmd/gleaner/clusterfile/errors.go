package clusterfile

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// This file says in words what the library finds wrong in cluster.toml.

// tomlError says where in the file the error is.
func tomlError(err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var lines []string
		for _, one := range unknown.Errors {
			lines = append(lines, unknownKey(one))
		}
		return errors.New(strings.Join(lines, "\n"))
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		line, _ := decode.Position()
		where := ""
		if key := decode.Key(); len(key) > 0 {
			where = strings.Join(key, ".") + ": "
		}
		message := strings.TrimPrefix(decode.Error(), "toml: ")
		if wrong := wrongType.FindStringSubmatch(message); wrong != nil {
			message = "a value of type " + wrong[1] + " is not allowed here: write " + wantedType(wrong[2])
		}
		if large := tooLarge.FindStringSubmatch(message); large != nil {
			message = large[1] + " is out of range: write a whole number from 0 to 4294967295"
		}
		return fmt.Errorf("line %d: %s%s", line, where, message)
	}
	return err
}

// wrongType is the library's sentence about a value of another type than its
// key has; it names types of this program, which users need not know.
var wrongType = regexp.MustCompile(`^cannot decode TOML (.+?) into (?:struct field )?.*?of type (\S+)$`)

// tooLarge is its sentence about a number that does not fit; all of ours have
// 32 bits.
var tooLarge = regexp.MustCompile(`^(?:negative )?integer value (\S+) cannot be stored in uint32$`)

// wantedType is what to write for a value of a type of this program.
func wantedType(name string) string {
	switch strings.TrimPrefix(name, "*") {
	case "string":
		return `a text in quotes, as in "value"`
	case "bool":
		return "true or false"
	case "uint32":
		return "a whole number without quotes"
	case "[]string":
		return `a list of texts, as in ["one", "two"]`
	}
	return "a table, as in [[partition]]"
}

// unknownKey names a key that there is none of, and the one most like it.
func unknownKey(e toml.DecodeError) string {
	line, _ := e.Position()
	path := e.Key()
	key, table := path[len(path)-1], reflect.TypeFor[clusterFile]()
	if len(path) > 1 {
		if inner := tableOf(path[0]); inner != nil {
			table = inner
		}
	}
	known := tomlKeys(table)
	text := fmt.Sprintf("line %d: there is no key %.80q", line, strings.Join(path, "."))
	if meant := similar.Nearest(key, known); meant != "" {
		return text + fmt.Sprintf("; did you mean %s?", meant)
	}
	return text + "; the keys are " + strings.Join(known, ", ")
}

// tableOf is the type of a table of the file, nil for what is none.
func tableOf(key string) reflect.Type {
	file := reflect.TypeFor[clusterFile]()
	for i := range file.NumField() {
		field := file.Field(i).Type
		if file.Field(i).Tag.Get("toml") != key {
			continue
		}
		if field.Kind() == reflect.Slice {
			field = field.Elem()
		}
		if field.Kind() == reflect.Struct {
			return field
		}
	}
	return nil
}

// tomlKeys are the keys of a table.
func tomlKeys(table reflect.Type) []string {
	var keys []string
	for i := range table.NumField() {
		keys = append(keys, table.Field(i).Tag.Get("toml"))
	}
	return keys
}
