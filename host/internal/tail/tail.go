// Package tail keeps the end of what a child process says, for the error when it dies.
package tail

import "sync"

// Bytes is how much a Buffer keeps.
const Bytes = 4 << 10

// Buffer keeps the last Bytes bytes of what is written. The zero Buffer is empty. It is safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

// Write takes all of p; it never fails.
func (t *Buffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - Bytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// String is what is kept.
func (t *Buffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
