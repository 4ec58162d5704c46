// Package roots is a node's cache of container images, unpacked: the lower layers of the
// roots of jobs that bring their own.
//
// Root answers an image's layers, and pulls what is missing. It reads an image in a
// process that is the user, with the user's credentials, and unpacks each layer in
// another one, which is root of a user namespace and of nothing else (see cmd/goci). This
// process opens no path that a user named, and reads nothing but documents whose digest
// it has compared.
//
// Layers are kept by what is in them, and shared by all images and users. A user gets a
// layer or an image that others brought only after their bytes came for that user
// too: a digest is no password.
//
// Supervisors and the daemon use one cache at once, each through files and locks of
// files, which vanish with the process that holds them. Nothing that a killed
// process leaves is ever taken for a layer.
package roots
