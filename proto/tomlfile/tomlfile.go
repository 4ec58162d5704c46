// Package tomlfile reads the daemons' configuration files.
//
// It promises to read a regular file of bounded size and nothing else, however
// the path leads there, and to say for each error where it is and which key was
// meant. It needs a struct whose fields carry toml tags.
package tomlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"

	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// MaxBytes bounds a configuration: one with a thousand GPUs is far below.
const MaxBytes = 1 << 20

// ErrNotFile is returned for a directory, a pipe, a device.
var ErrNotFile = errors.New("not a file")

// Read reads a regular file of at most limit bytes. A pipe is not waited for.
func Read(path string, limit int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w but %s", path, ErrNotFile, kind(info.Mode()))
	}
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: it has more than %d bytes, too many for what it should be", path, limit)
	}
	return text, err
}

func kind(mode os.FileMode) string {
	switch mode.Type() {
	case os.ModeDir:
		return "a directory"
	case os.ModeNamedPipe:
		return "a pipe"
	case os.ModeSocket:
		return "a socket"
	}
	return "a device"
}

// Decode reads a text into a struct. Errors begin with ":LINE:COLUMN: ", so
// that a file's name goes before them.
func Decode(text []byte, into any) error {
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(into)
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		first := unknown.Errors[0]
		row, column := first.Position()
		return fmt.Errorf(":%d:%d: unknown key %.80q: %s", row, column, strings.Join(first.Key(), "."), remedy(first.Key(), into))
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		row, column := bad.Position()
		return fmt.Errorf(":%d:%d: %s", row, column, explain(bad))
	}
	if err != nil {
		return fmt.Errorf(": %s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	return nil
}

// wrongType is how the decoder says that a value does not fit its field.
var wrongType = regexp.MustCompile(`^cannot decode TOML (\w+) into .*type (\S+)$`)

// explain says in the file's words what the decoder says in Go's.
func explain(bad *toml.DecodeError) string {
	message := strings.TrimPrefix(bad.Error(), "toml: ")
	found := wrongType.FindStringSubmatch(message)
	if found == nil {
		return message
	}
	wanted := "a table"
	switch kind := found[2]; {
	case strings.HasPrefix(kind, "[]"):
		wanted = "a list"
	case kind == "string":
		wanted = "a text in quotes"
	case kind == "bool" || kind == "*bool":
		wanted = "true or false"
	case strings.Contains(kind, "int"):
		wanted = "a whole number"
	}
	return fmt.Sprintf("key %.80q holds a TOML %s, and should hold %s", strings.Join(bad.Key(), "."), found[1], wanted)
}

// remedy names the key that was meant, or all there are in its table.
func remedy(key []string, into any) string {
	known := keys(reflect.TypeOf(into), key[:max(len(key)-1, 0)])
	if meant := similar.Nearest(key[len(key)-1], known); meant != "" {
		return "did you mean " + meant + "?"
	}
	return "known there are " + strings.Join(known, ", ")
}

// keys are those of the innermost table of a path that exists.
func keys(shape reflect.Type, path []string) []string {
	for shape.Kind() == reflect.Pointer || shape.Kind() == reflect.Slice {
		shape = shape.Elem()
	}
	if shape.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range shape.NumField() {
		name, _, _ := strings.Cut(shape.Field(i).Tag.Get("toml"), ",")
		if name == "" || name == "-" { // not a key
			continue
		}
		if len(path) > 0 && path[0] == name {
			return keys(shape.Field(i).Type, path[1:])
		}
		names = append(names, name)
	}
	return names
}
