package await

import (
	"flag"
	"fmt"
)

// InParallel runs up to eight tests of a package at the same time, however few processors there are. It is for packages
// whose tests wait more than they compute, and whose TestMain calls it. -parallel overrides it.
func InParallel() {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(fmt.Sprintf("run tests in parallel: %v", err))
	}
}
