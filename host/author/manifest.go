package author

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

var errModule = errors.New("not a WebAssembly module")

// moduleHead is the magic number and the version that every module begins with.
var moduleHead = []byte("\x00asm\x01\x00\x00\x00")

// WithManifest returns a module with a manifest, JSON as in ABI.md, in its section tw.manifest, the last one. A section of that
// name that is there already is left out, so that the same module and manifest always give the same bytes. Neither argument
// is changed. It returns an error for what is no module or no manifest.
func WithManifest(module, manifest []byte) ([]byte, error) {
	if _, err := plugins.ParseManifest(manifest); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(module, moduleHead) {
		return nil, errModule
	}
	out := append([]byte(nil), moduleHead...)
	for rest := module[len(moduleHead):]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:]) // the encoding of WebAssembly's unsigned numbers
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, fmt.Errorf("%w: a section ends behind the file", errModule)
		}
		section, body := rest[:1+n+int(size)], rest[1+n:1+n+int(size)]
		rest = rest[len(section):]
		if section[0] == 0 && customName(body) == abi.Manifest {
			continue
		}
		out = append(out, section...)
	}
	body := binary.AppendUvarint(nil, uint64(len(abi.Manifest)))
	body = append(append(body, abi.Manifest...), manifest...)
	out = binary.AppendUvarint(append(out, 0), uint64(len(body)))
	return append(out, body...), nil
}

// customName is the name of a custom section.
func customName(body []byte) string {
	size, n := binary.Uvarint(body)
	if n <= 0 || size > uint64(len(body)-n) {
		return ""
	}
	return string(body[n : n+int(size)])
}
