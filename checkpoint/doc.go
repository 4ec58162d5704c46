// Package checkpoint saves the whole process tree of a container at one
// instant, and lets it go on later, elsewhere. It works with runc's
// libcontainer and with CRIU, and knows nothing of jobs or clusters beyond the
// names in a Manifest.
//
// What it promises: an image is whole or there is none; what was frozen is
// frozen or running afterwards as was asked, never half, also when CRIU fails
// or is killed; an image in which a process of the container is missing is
// never taken for one; and before anything starts from an image every byte of
// it, and of each file that it refers to, has been compared with the manifest.
package checkpoint
