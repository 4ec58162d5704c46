// Package store keeps the images of saved jobs: in a directory, of one node or
// shared by several, in a bucket of a server that speaks S3, or on another node,
// from which they are read over any stream of bytes.
//
//	s, err := store.OpenDirectory(ctx, "/var/lib/…/images", store.Limits{Bytes: 500 << 30})
//	receipt, err := s.Put(ctx, manifest, dumpDirectory)   // durable when it returns
//	receipt, err = s.Take(ctx, manifest, dumpDirectory)   // and gives back what was read
//	w, err := s.Begin(ctx, manifest, bytes)               // packed while it is dumped:
//	err = w.Add(ctx, part, pipe)                          // parts that lie in no file,
//	receipt, err = w.Finish(ctx, manifest, dumpDirectory) // and then the others
//	err = s.Get(ctx, receipt.Digest, restoreDirectory)    // every byte verified
//	image, err := s.Open(ctx, receipt.Digest)             // its manifest, and its chunks
//	feed, err := image.Feed(ctx, dir, which)              // which parts are read later
//	data, done, err := feed.Read(part, offset, most)      // every byte verified
//
//	keys := store.NewKeys("/etc/…/keys")                  // encrypted, and in a bucket:
//	s, err = store.OpenPlace(ctx, store.Place{Address: "s3://bucket/prefix"}, store.Limits{}, keys)
//
//	err = store.Serve(ctx, conn, s, digest)               // here: that image, read only
//	r := store.NewRemote(dial)                            // there: a Reader like s
//	err = r.Get(ctx, digest, restoreDirectory)
//
// What it promises: an image is whole or there is none, wherever a writer or a
// machine stops; a Put that returned is on the disk; every byte that Get or
// a Feed hands out has been compared with the manifest, whose digest names the image;
// nobody but the store's owner can read it; whatever an image's size, memory
// is bounded; and a directory that does not answer holds up nobody for longer
// than the context says. What it does not: a disk that spoils a chunk spoils
// all images of the job that share it.
//
// What it needs: Linux 5.6; a file system on which renaming is atomic, and for
// one that nodes share that it is so for all of them, such as NFS with
// no_root_squash. No locks. With hard links a second image of a job writes what
// changed; without them it writes everything again.
//
// What it costs, printed by go test -bench: a Put reads each byte once and
// hashes it; that takes 1.4 to 1.7 s of one processor for 1 GiB, shared by all
// there are. What changed since the job's image before is compressed and
// written; compression that would hold the job up on a fast disk is left out
// (pace.go). The same 1 GiB again writes under 0.1 %; one changed page costs
// the chunk it is in, 64 KiB on average, and pages that come in between cost
// no more, for chunks are cut by content: with cuts at fixed places, which were
// tried, one page in the middle made 41 % of an image new in place of 0.02 %,
// while 60 scattered pages of 65,536 cost 1.5 % in place of 1.9 %; chunks four
// times as long cost four times as much. Chunks grow with images of more than
// 4 GiB, so that their list does not: with two processors, heap is at most about
// 80 MiB for 1 GiB and 115 MiB for 4 and more; with many, batches on their way
// take up to 128 MiB of it. Zeros cost a look. An image keeps at most about twice its
// size (base.go). A Put makes durable each pack, of about 64 MiB, the manifest,
// and two directories. Thousands of other images cost one reading of one
// directory, 3 µs each; a limit costs 14 µs per pack of the store.
package store
