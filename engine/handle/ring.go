package handle

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// ErrRingFull is returned by Rotate when all 255 key ids are used.
var ErrRingFull = errors.New("handle: no key id is left")

// Ring is the keys of a store. It is safe for concurrent use; Seal and Open never wait for Rotate.
type Ring struct {
	// set by Create and Load, then read-only
	fsys vfs.FS
	name string

	rotate sync.Mutex // one Rotate at a time

	// keys is replaced as a whole, after the file that has the same keys is durable: no handle is ever sealed with a
	// key that a power cut can undo.
	keys atomic.Pointer[[]*key]
}

// key is one secret. Invariant: keys[i].id == i+1 for all keys of a ring.
type key struct {
	id     uint8
	secret [secretSize]byte
	// hashers holds *hasher of this key: making one costs more than a MAC.
	hashers sync.Pool
}

// hasher is the state of one HMAC and room for its input and result, which would escape otherwise.
type hasher struct {
	mac hash.Hash
	buf [len(prefix) + bodySize + sha256.Size]byte
}

// Create makes a ring with one key, read from random, and its file, which must not exist: the error is of kind
// fs.ErrExist then. When it returns nil the file is durable.
func Create(fsys vfs.FS, name string, random io.Reader) (*Ring, error) {
	if err := absent(fsys, name); err != nil {
		return nil, fmt.Errorf("handle: create keys: %w", err)
	}
	r := &Ring{fsys: fsys, name: name}
	if err := r.add(nil, random); err != nil {
		return nil, fmt.Errorf("handle: create keys: %w", err)
	}
	return r, nil
}

// Load reads a ring from its file. A missing file is an error of kind fs.ErrNotExist, a damaged one *corrupt.Error, a
// file of a newer version ErrNewerFormat.
func Load(fsys vfs.FS, name string) (*Ring, error) {
	keys, err := load(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("handle: load keys: %w", err)
	}
	r := &Ring{fsys: fsys, name: name}
	r.keys.Store(&keys)
	return r, nil
}

// Rotate adds a key, read from random. When it returns nil the file is durable and Seal uses the new key; handles of
// the older keys stay valid. After an error the ring is as before. Rotate may be tried again, also after a failed sync:
// it writes all of the file anew and believes nothing that an earlier attempt left.
func (r *Ring) Rotate(random io.Reader) error {
	r.rotate.Lock()
	defer r.rotate.Unlock()
	if err := r.add(*r.keys.Load(), random); err != nil {
		return fmt.Errorf("handle: rotate keys: %w", err)
	}
	return nil
}

// add makes the old keys and one more the ring's, in the file first.
func (r *Ring) add(old []*key, random io.Reader) error {
	if len(old) == maxKeys {
		return ErrRingFull
	}
	k := &key{id: uint8(len(old) + 1)}
	if _, err := io.ReadFull(random, k.secret[:]); err != nil {
		return fmt.Errorf("read a secret: %w", err)
	}
	keys := append(old[:len(old):len(old)], k)
	if err := store(r.fsys, r.name, keys); err != nil {
		return err
	}
	r.keys.Store(&keys)
	return nil
}

// Newest is the id of the key that Seal uses.
func (r *Ring) Newest() uint8 { return uint8(len(*r.keys.Load())) }

// Seal returns the text of h, signed with the newest key; h.KeyID is ignored.
func (r *Ring) Seal(h Handle) string {
	var b [textSize]byte
	return string(r.AppendSeal(b[:0], h))
}

// AppendSeal appends the text that Seal returns to b. It allocates nothing when b has room for 66 bytes.
func (r *Ring) AppendSeal(b []byte, h Handle) []byte {
	keys := *r.keys.Load()
	k := keys[len(keys)-1]
	h.KeyID = k.id
	var sealed [bodySize + macSize]byte
	body := h.appendBody(sealed[:0])
	k.sign(body, sealed[bodySize:])
	return text.AppendEncode(append(b, prefix...), sealed[:])
}

// Open returns the handle of a text that Seal made with a key of this ring, with the key's id. The only error is
// ErrForged.
func (r *Ring) Open(s string) (Handle, error) {
	b, ok := parse(s)
	if !ok {
		return Handle{}, ErrForged
	}
	h := decodeBody(b[:])
	keys := *r.keys.Load()
	if h.KeyID == 0 || int(h.KeyID) > len(keys) {
		return Handle{}, ErrForged
	}
	var mac [macSize]byte
	keys[h.KeyID-1].sign(b[:bodySize], mac[:])
	if !equal(mac[:], b[bodySize:]) {
		return Handle{}, ErrForged
	}
	return h, nil
}

// sign writes the MAC of a body.
func (k *key) sign(body, mac []byte) {
	h, ok := k.hashers.Get().(*hasher)
	if !ok {
		h = &hasher{mac: hmac.New(sha256.New, k.secret[:])}
	}
	in := append(append(h.buf[:0], prefix...), body...)
	h.mac.Reset()
	h.mac.Write(in)
	copy(mac[:macSize], h.mac.Sum(h.buf[len(in):len(in)]))
	k.hashers.Put(h)
}
