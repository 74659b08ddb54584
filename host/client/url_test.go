package client_test

import (
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/client"
)

// TestURLMistakes: an address without its scheme is the usual mistake, and the error says what one looks like.
func TestURLMistakes(t *testing.T) {
	for _, base := range []string{"127.0.0.1:7070", "localhost:7070", "", "ftp://localhost", "http://"} {
		_, err := client.NewWith(base, client.Options{})
		if err == nil || !strings.Contains(err.Error(), "is not a URL like "+client.DefaultURL) {
			t.Errorf("%q: %v", base, err)
		}
	}
}
