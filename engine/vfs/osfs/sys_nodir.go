//go:build !unix && !windows && !wasip1

package osfs

import (
	"errors"
	"os"
)

func syncDir(*os.File) error { return errors.ErrUnsupported }
