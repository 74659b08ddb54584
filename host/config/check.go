package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/schedule"
)

// check says what is wrong with a text, by what its unit says it is.
func (k *key) check(text string) error {
	if len(k.words) > 0 && !slices.Contains(k.words, text) {
		return fmt.Errorf("allowed is %s%s", k.allowed(), didYouMean(text, k.words))
	}
	switch k.unit {
	case "path":
		if text == "" {
			return errors.New("it is empty")
		}
	case "delay levels":
		_, err := schedule.ParseLevels(text)
		return trimmed(err, "schedule: ")
	case "address":
		return checkAddress(text)
	case "name", "topics":
		return trimmed(message.ValidTopic(text), "message: ")
	}
	return k.checkPlugin(text)
}

// trimmed is an error without the name of the package that it comes from, which tells a user nothing.
func trimmed(err error, prefix string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), prefix))
}

// checkAddress wants a host and a port.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New(`it must be a host and a port, as in "127.0.0.1:7070"`)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("port %q, allowed is 0 to 65535", shorten(port))
	}
	return nil
}

// loopback says whether only this machine reaches an address that checkAddress has taken.
func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// checkTogether finds values that are good alone and not with each other, once all of them are known. What listens
// checks some of it again; here it is said with its line.
func (l *loader) checkTogether() {
	c := l.cfg
	switch {
	case c.Listen.TLSCert != "" && c.Listen.TLSKey == "":
		l.blame("listen.tls_cert", "tls_key is missing, the file of its key")
	case c.Listen.TLSCert == "" && c.Listen.TLSKey != "":
		l.blame("listen.tls_key", "tls_cert is missing, the file of its certificate")
	}
	var missing []string
	if c.Auth.TokensFile == "" {
		missing = append(missing, "[auth] tokens_file")
	}
	if c.Listen.TLSCert == "" {
		missing = append(missing, "[listen] tls_cert and tls_key")
	}
	l.checkPluginsTogether()
	if len(missing) > 0 && !loopback(c.Listen.HTTP) {
		l.blame("listen.http", fmt.Sprintf("other machines can reach %q: set %s, or listen on 127.0.0.1",
			c.Listen.HTTP, strings.Join(missing, ", ")))
	}
}

// blame notes a problem of a value wherever it comes from.
func (l *loader) blame(key, text string) {
	if origin := l.cfg.origins[key]; origin != l.place(key) || l.lines[key] == 0 {
		l.problems = append(l.problems, Problem{Source: origin, Key: key, Text: text})
		return
	}
	l.bad(key, text)
}

// checkTopics finds topics that are there twice.
func (l *loader) checkTopics() {
	first := map[string]string{}
	for i := range l.cfg.Topics {
		name, at := l.cfg.Topics[i].Name, child(item("topic", i), "name")
		switch before, twice := first[name]; {
		case name == "": // reported already
		case twice:
			l.bad(at, fmt.Sprintf("%q is there twice, first at %s", name, before))
		default:
			first[name] = l.place(at)
		}
	}
}
