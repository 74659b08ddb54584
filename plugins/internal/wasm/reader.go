package wasm

import (
	"fmt"
	"unicode/utf8"
)

// reader takes values off a part of the file. The first error stays: everything read after it is zero, so that a loop need
// only look at err once per turn. Not safe for concurrent use.
type reader struct {
	b     []byte // the part, as a window of the file
	base  int    // offset of b in the file
	off   int    // in b
	where string // for errors
	err   error
}

func (r *reader) left() int { return len(r.b) - r.off }

func (r *reader) fail(kind error, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Kind: kind, Offset: r.base + r.off, Where: r.where, Reason: fmt.Sprintf(format, args...)}
		r.off = len(r.b)
	}
}

func (r *reader) u8() byte {
	if r.off >= len(r.b) {
		r.fail(ErrMalformed, "ends in the middle")
		return 0
	}
	c := r.b[r.off]
	r.off++
	return c
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	var x uint32
	for shift := uint(0); ; shift += 7 {
		c := r.u8()
		if r.err != nil {
			return 0
		}
		if shift == 28 && c > 0x0f {
			r.fail(ErrMalformed, "number of more than 32 bits")
			return 0
		}
		x |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return x
		}
	}
}

// signed reads a signed LEB128 number of at most bits (32, 33 or 64).
func (r *reader) signed(bits uint) int64 {
	var x int64
	for shift := uint(0); ; shift += 7 {
		c := r.u8()
		if r.err != nil {
			return 0
		}
		if shift >= bits {
			r.fail(ErrMalformed, "number of more than %d bits", bits)
			return 0
		}
		x |= int64(c&0x7f) << shift
		if c < 0x80 {
			if shift += 7; shift < 64 && c&0x40 != 0 {
				x |= -1 << shift
			}
			return x
		}
	}
}

// take returns the next n bytes as a window of the file.
func (r *reader) take(n uint32) []byte {
	if uint64(n) > uint64(r.left()) {
		r.fail(ErrMalformed, "%d bytes announced, %d left", n, r.left())
		return nil
	}
	p := r.b[r.off : r.off+int(n) : r.off+int(n)]
	r.off += int(n)
	return p
}

// count reads the length of a vector whose elements take at least one byte each. What it returns may size an allocation.
func (r *reader) count(limit int, what string) int {
	n := r.u32()
	switch {
	case r.err != nil:
		return 0
	case uint64(n) > uint64(limit):
		r.fail(ErrLimit, "%d %s, at most %d", n, what, limit)
		return 0
	case uint64(n) > uint64(r.left()):
		r.fail(ErrMalformed, "%d %s announced, %d bytes left", n, what, r.left())
		return 0
	}
	return int(n)
}

func (r *reader) name(limit int) string {
	n := r.count(limit, "bytes of a name")
	p := r.take(uint32(n))
	if r.err == nil && !utf8.Valid(p) {
		r.fail(ErrMalformed, "name is not UTF-8")
	}
	return string(p)
}

// part opens the next n bytes as a reader of their own.
func (r *reader) part(n uint32, where string) *reader {
	at := r.base + r.off
	return &reader{b: r.take(n), base: at, where: where, err: r.err}
}

// done reports bytes that nothing has read.
func (r *reader) done() error {
	if r.err == nil && r.left() > 0 {
		r.fail(ErrMalformed, "%d bytes too many", r.left())
	}
	return r.err
}
