package policy

import "cmp"

// DefaultImageWaitS is how long the node of an image may be away before an
// older image is used.
const DefaultImageWaitS = 180

// ImageWaitS is that time by the policy.
func (p *Policy) ImageWaitS() uint32 { return cmp.Or(p.ImageWait, DefaultImageWaitS) }
