package secretbox

import "io/fs"

// owner has no meaning here.
func owner(fs.FileInfo) [2]uint32 { return [2]uint32{} }
