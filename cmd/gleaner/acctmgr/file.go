package acctmgr

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/account"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// file writes all of accounts to a file, or reads one.
func (c *acctmgrRun) file(verb string, words []string) error {
	path, err := c.fileName(verb, words)
	if err != nil {
		return err
	}
	var text []byte
	if verb == "load" {
		if text, err = c.readFlatFile(path); err != nil {
			return err
		}
	}
	if c.client, err = client.Connect(c.inv); err != nil {
		return err
	}
	defer c.client.Close()
	listing, err := c.listing()
	if err != nil {
		return client.LoadError(c.inv, "sacctmgr error", err)
	}
	if verb == "dump" {
		return c.dump(listing, path)
	}
	plan, err := listing.Load(string(text))
	if err != nil {
		return c.refuse(fmt.Errorf("%s: %w", path, err))
	}
	return c.carryOut(plan)
}

// fileName reads "FILE", "file=FILE", and sacctmgr's "CLUSTER file=FILE".
func (c *acctmgrRun) fileName(verb string, words []string) (string, error) {
	path := ""
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		switch {
		case found && strings.EqualFold(key, "file"):
			path = value
		case found && strings.EqualFold(key, "cluster"):
		case strings.EqualFold(word, "clean"):
			return "", &option.LaterError{Name: "load clean", Remedy: "delete what is not wanted any more by itself"}
		case path == "":
			path = word
		default:
			return "", c.inv.Fail("%s takes one file: type gacctmgr %s FILE", verb, verb)
		}
	}
	if path == "" && verb == "load" {
		return "", c.inv.Fail("no file given: type gacctmgr load FILE")
	}
	return path, nil
}

func (c *acctmgrRun) readFlatFile(path string) ([]byte, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = console.ReadStream(c.inv.Context, c.inv.Stdin, account.MaxFileBytes)
	} else {
		text, err = console.ReadFile(c.inv.Context, path, account.MaxFileBytes)
	}
	if err == nil && len(text) > account.MaxFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes: load it in parts", path, account.MaxFileBytes)
	}
	if err != nil {
		return nil, c.inv.Fail("%w", err)
	}
	return text, nil
}

// dump never replaces a file: what is in it may be the only copy.
func (c *acctmgrRun) dump(listing *account.Listing, path string) error {
	var text bytes.Buffer
	if err := listing.Dump(&text); err != nil {
		return err
	}
	if path == "" || path == "-" {
		_, err := io.Copy(c.inv.Stdout, &text)
		return console.Output(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return c.inv.Fail("%w", err)
	}
	_, err = io.Copy(file, &text)
	if err = errors.Join(err, file.Close()); err != nil {
		return c.inv.Fail("%w", err)
	}
	return nil
}
