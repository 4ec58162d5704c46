// Package store keeps the images of saved jobs: in a directory, of one node or
// shared by several, or on another node, from which they are read over any
// stream of bytes.
//
//	s, err := store.OpenDirectory(ctx, "/var/lib/…/images", store.Limits{Bytes: 500 << 30})
//	receipt, err := s.Put(ctx, manifest, dumpDirectory)   // durable when it returns
//	err = s.Get(ctx, receipt.Digest, restoreDirectory)    // every byte verified
//
//	err = store.Serve(ctx, conn, s, digest)               // here: that image, read only
//	r := store.NewRemote(dial)                            // there: a Reader like s
//	err = r.Get(ctx, digest, restoreDirectory)
//
// What it promises: an image is whole or there is none, wherever a writer or a
// machine stops; a Put that returned is on the disk; every byte that Get hands
// out has been compared with the manifest, whose digest names the image;
// nobody but the store's owner can read it; whatever an image's size, memory
// is bounded; and a directory that does not answer holds up nobody for longer
// than the context says.
package store
