package bench

import "syscall"

// residentBytes is the most memory that this process ever had; 0 when it is not known.
func residentBytes() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss
}
