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
	case "name":
		return trimmed(message.ValidTopic(text), "message: ")
	}
	return nil
}

// trimmed is an error without the name of the package that it comes from, which tells a user nothing.
func trimmed(err error, prefix string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), prefix))
}

// checkAddress wants a loopback host and a port. What listens checks it again; here it is said with its line.
func checkAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New(`it must be a host and a port, as in "127.0.0.1:7070"`)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("port %q, allowed is 0 to 65535", shorten(port))
	}
	if ip := net.ParseIP(host); !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is not a loopback address, and this version has no authentication", shorten(host))
	}
	return nil
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
