//go:build !wasip1

package guest

import "fmt"

// Log writes a line: to the host's log, or to standard output under go test.
func Log(line string) { fmt.Println(line) }
