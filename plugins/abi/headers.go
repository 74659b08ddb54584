package abi

import "encoding/binary"

var le = binary.LittleEndian

// Headers are the headers of a record as they lie in a batch: entries of
//
//	+-----------+----------------+----------+-----+-------+---------+
//	| klen (2B) | reserved (2B)  | vlen (4B)| key | value | 0 to 4B |
//	+-----------+----------------+----------+-----+-------+---------+
//
// The padding makes each entry a multiple of 4 bytes long. Damaged entries end the list: nothing reads beyond it.
type Headers []byte

// Append adds a header and returns the extended slice, like append. A key has at most 65,535 bytes; what is above is cut.
func (h Headers) Append(key, value []byte) Headers {
	key = key[:min(len(key), 1<<16-1)]
	h = le.AppendUint16(h, uint16(len(key)))
	h = append(h, 0, 0)
	h = le.AppendUint32(h, uint32(len(value)))
	h = append(append(h, key...), value...)
	for n := len(key) + len(value); n&3 != 0; n++ {
		h = append(h, 0)
	}
	return h
}

// Next takes the first header off: its key and value are windows of h. It returns false at the end, and at an entry that is
// not whole.
func (h Headers) Next() (key, value []byte, rest Headers, ok bool) {
	if len(h) < 8 {
		return nil, nil, nil, false
	}
	k, v := uint64(le.Uint16(h)), uint64(le.Uint32(h[4:]))
	end := (8 + k + v + 3) &^ 3
	if end > uint64(len(h)) {
		return nil, nil, nil, false
	}
	return h[8 : 8+k : 8+k], h[8+k : 8+k+v : 8+k+v], h[end:], true
}

// Get returns the value of the first header with a key, compared byte by byte, and where it begins in h; false when there is
// none.
func (h Headers) Get(key string) (value []byte, at int, ok bool) {
	all := len(h)
	for {
		k, v, rest, more := h.Next()
		if !more {
			return nil, 0, false
		}
		if string(k) == key {
			return v, all - len(h) + 8 + len(k), true
		}
		h = rest
	}
}

// Whole says whether h consists of whole entries up to its end.
func (h Headers) Whole() bool {
	for len(h) > 0 {
		_, _, rest, ok := h.Next()
		if !ok {
			return false
		}
		h = rest
	}
	return true
}
