package message

import "unicode/utf8"

// TagHash is the hash by which consumers filter tags: Java's String.hashCode, h = 31h + c over UTF-16 units, wrapping
// at 32 bits, 0 for the empty tag. RocketMQ's clients send it instead of the tag. A byte that is not UTF-8 counts as
// U+FFFD, as Java decodes it. It allocates nothing.
func TagHash[T ~string | ~[]byte](tag T) int32 {
	var h int32
	for i := 0; i < len(tag); {
		if c := tag[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			i++
			continue
		}
		var window [utf8.UTFMax]byte
		r, size := utf8.DecodeRune(window[:copy(window[:], tag[i:])])
		if r < 0x10000 {
			h = 31*h + int32(r)
		} else { // a pair of surrogates
			h = 31*h + int32(0xd800+(r-0x10000)>>10)
			h = 31*h + int32(0xdc00+(r-0x10000)&0x3ff)
		}
		i += size
	}
	return h
}

// KeyHash is FNV-1a with 64 bits over the bytes of a key, and 0 for the empty key, which means that there is none. It
// is a filter, not a name: whoever looks for a key compares the key itself too. It allocates nothing.
func KeyHash[T ~string | ~[]byte](key T) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	if len(key) == 0 {
		return 0
	}
	h := uint64(offset)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	return h
}
