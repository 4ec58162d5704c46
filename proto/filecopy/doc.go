// Package filecopy copies a file, or a tree of files, over one stream of bytes in each
// direction: between a command and a process of a job, for gcp. Who has the files calls
// Send, and who gets them Receive; either end may be the command.
//
//	sum, err := filecopy.Send(stream, "/data/set", options)      // there
//	sum, err := filecopy.Receive(stream, "results/", options)    // here
//
// What it promises: each file has at the end, under its name, the bytes that were sent,
// compared by SHA-256, or it is as it was before; a copy that broke off goes on where it
// stopped when it is made again, and what is there already is not sent; the end that
// receives makes nothing outside of its target, whatever the other end sends; it follows no
// link below it. Files are opened with the rights of whoever calls. What it leaves out:
// links and special files, with a word for each; owners and times.
//
// The dialogue. The sender begins with the name that its source has, and then sends for
// each directory and file, a directory before what is in it:
//
//	sender                    receiver
//	entry (path, kind, size)
//	                          have (offset, SHA-256 of that much), or trouble
//	go (offset)
//	data …
//	sum (SHA-256 of all)
//	                          done, or trouble
//	end
//	                          end
//
// A directory is answered with done or trouble at once. Trouble of the sender, for what it
// cannot read, stands in the place of an entry or of a sum.
package filecopy
