package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// user is somebody who submits jobs, and exists only in the lab.
type user struct {
	name string
	id   int
}

var users = []user{{"alice", 61001}, {"bob", 61002}}

// Folders in the test's directory.
const (
	logFolder    = "logs"
	recordFolder = "record"
	homeFolder   = "home"
	socketFolder = "run"
	tlsFolder    = "tls"
	configFolder = "etc"
	deviceFolder = "dev"
)

// writeAccounts writes the machine's accounts, and adds the test's users.
func writeAccounts(directory string) error {
	for _, file := range []struct{ name, line string }{
		{"passwd", "%s:x:%d:%[2]d::" + filepath.Join(directory, homeFolder) + "/%[1]s:/bin/sh\n"},
		{"group", "%s:x:%d:\n"},
	} {
		text, err := os.ReadFile("/etc/" + file.name)
		if err != nil {
			return err
		}
		all := strings.TrimRight(string(text), "\n") + "\n"
		for _, u := range users {
			all += fmt.Sprintf(file.line, u.name, u.id)
		}
		if err := os.WriteFile(filepath.Join(directory, file.name), []byte(all), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
