package author

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestEmptyPlugin: emptyHex is the one of this text, which keeps everything and sends nothing.
func TestEmptyPlugin(t *testing.T) {
	m := plugintest.Guest()
	for _, hook := range []string{"tw_publish", "tw_filter", "tw_transform", "tw_result"} {
		m.Hook(hook, "i64.const 1")
	}
	m.Hook("tw_prepare", "i64.const 2")
	if got, _ := hex.DecodeString(emptyHex); !bytes.Equal(got, m.Bytes()) {
		t.Errorf("emptyHex should be\n%x", m.Bytes())
	}
}
