package console

import "os"

// UID is the calling user, for --me.
var UID = os.Getuid
