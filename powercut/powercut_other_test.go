//go:build !linux

package powercut

import "testing"

func TestPowerCut(t *testing.T) {
	t.Skip("no power cut on a real file system: this machine lacks Linux")
}
