package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
)

// images measures what it takes to keep a saved job and to get it back; CRIU
// has no part in it.
func (b *bench) images(ctx context.Context) {
	measures := []measure{imagePut, imageAgain, imageWritten, imageGet}
	for round := range b.sizes.imageRounds {
		if ctx.Err() != nil {
			return
		}
		b.say("images, round %d of %d", round+1, b.sizes.imageRounds)
		directory := filepath.Join(b.directory, fmt.Sprintf("images-%d", round))
		limited, cancel := context.WithTimeoutCause(ctx, blockPatience, fmt.Errorf("not done in %v", blockPatience))
		err := b.imageRound(limited, directory, round)
		cancel()
		if ended := removeTree(directory); ended != nil {
			b.failures = append(b.failures, fmt.Errorf("clean up after images: %w", ended))
		}
		if err == nil {
			continue
		}
		b.failures = append(b.failures, fmt.Errorf("images: %w", err))
		for _, m := range measures {
			b.table.missing(m, ours, err.Error())
		}
	}
}

func (b *bench) imageRound(ctx context.Context, directory string, round int) error {
	const part = "pages-1.img"
	dump := filepath.Join(directory, "dump")
	if err := os.MkdirAll(dump, 0o700); err != nil {
		return err
	}
	bare, err := writeMemory(filepath.Join(dump, part), b.sizes.imageMiB, uint64(round))
	if err != nil {
		return err
	}
	b.table.add(round, imagePut, bareColumn, milliseconds(bare))
	b.table.add(round, imageGet, bareColumn, milliseconds(bare))
	images, err := store.OpenDirectory(ctx, filepath.Join(directory, "store"), store.Limits{})
	if err != nil {
		return err
	}
	m := &checkpoint.Manifest{Version: checkpoint.ManifestVersion, Job: 1, Epoch: 1, Node: "bench", Root: "host",
		Parts: []checkpoint.Part{{Name: part, Size: int64(b.sizes.imageMiB) << 20}}}
	var receipt store.Receipt
	for _, measured := range []measure{imagePut, imageAgain} {
		m.Number++
		began := time.Now()
		if receipt, err = images.Put(ctx, m, dump); err != nil {
			return errors.Join(err, images.Close())
		}
		b.table.add(round, measured, ours, milliseconds(time.Since(began)))
	}
	b.table.add(round, imageWritten, ours, 100*float64(receipt.WrittenBytes)/float64(receipt.Bytes))
	began := time.Now()
	err = images.Get(ctx, receipt.Digest, filepath.Join(directory, "restored"))
	b.table.add(round, imageGet, ours, milliseconds(time.Since(began)))
	return errors.Join(err, images.Close())
}

// writeMemory writes a file like the memory of a program and returns how long
// writing and syncing took, without making it up.
func writeMemory(name string, mebibytes int, seed uint64) (time.Duration, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	random := rand.NewChaCha8([32]byte{byte(seed), 1})
	took := time.Duration(0)
	piece := make([]byte, 1<<20)
	for i := 0; i < mebibytes && err == nil; i++ {
		for run := range 16 {
			fillPages(random, piece[run*len(piece)/16:(run+1)*len(piece)/16], run%4)
		}
		began := time.Now()
		_, err = file.Write(piece)
		took += time.Since(began)
	}
	began := time.Now()
	if err == nil {
		err = file.Sync()
	}
	return took + time.Since(began), errors.Join(err, file.Close())
}

// fillPages makes up pages: of kind 0 zeros, of kind 1 text, otherwise noise.
func fillPages(random *rand.ChaCha8, pages []byte, kind int) {
	switch kind {
	case 0:
		clear(pages)
	case 1:
		line := fmt.Sprintf("line %d of what a program keeps in memory\n", random.Uint64()%1000)
		copy(pages, bytes.Repeat([]byte(line), len(pages)/len(line)+1))
	default:
		_, _ = random.Read(pages) // it never fails
	}
}
