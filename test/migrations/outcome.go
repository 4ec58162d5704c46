package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// outcome is all that a run leaves: how it ended, and its files with the type,
// mode and SHA-256 of each, by path.
type outcome struct {
	state, exit string
	files       map[string]string
}

func outcomeOf(dir string, end state) (outcome, error) {
	o := outcome{state: end.name, exit: end.exit, files: map[string]string{}}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if info.Mode().IsRegular() {
			sum, err := sumOf(path)
			if err != nil {
				return err
			}
			text += " " + sum
		}
		o.files[name] = text
		return nil
	})
	return o, err
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return fmt.Sprintf("%x", sum.Sum(nil)), errors.Join(err, file.Close())
}

// difference returns in a sentence the first thing that is not the same; empty
// if all is.
func (o outcome) difference(other outcome) string {
	if o.state != other.state || o.exit != other.exit {
		return fmt.Sprintf("%s with exit status %s, undisturbed %s with %s", o.state, o.exit, other.state, other.exit)
	}
	names := slices.Sorted(maps.Keys(o.files))
	for name := range other.files {
		if _, there := o.files[name]; !there {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if o.files[name] != other.files[name] {
			return fmt.Sprintf("%s differs", name)
		}
	}
	return ""
}

// compare notes in what a run differs from the undisturbed one.
func (r *run) compare(undisturbed *run) {
	if r.err != nil {
		return
	}
	if r.difference = r.outcome.difference(undisturbed.outcome); r.difference != "" {
		r.difference += ": it ended with " + r.lastWords() + ", undisturbed with " + undisturbed.lastWords()
	}
}
