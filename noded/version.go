package noded

// Version of this program; the build sets it with -ldflags -X.
var Version = "unversioned"
