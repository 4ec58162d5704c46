// Package checkpoint saves the whole process tree of a container at one
// instant, and resumes it later, elsewhere. It works with runc's
// libcontainer and with CRIU, and knows nothing of jobs or clusters beyond the
// names in a Manifest.
//
// What it promises: an image is whole or there is none. A frozen tree is
// afterwards frozen or running, as was asked, never half of each, also when CRIU
// fails or is killed. An image that lacks a process of the container is never
// taken for a good one. And before anything starts from an image, every byte of
// it, and of each file that it refers to, has been compared with the manifest.
package checkpoint
