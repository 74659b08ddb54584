package egress

import (
	"net/http"
	"strings"
	"time"
)

// MaxRetryAfter is the longest time that a Retry-After asks for and gets.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter reads the header of that name: how long to wait from now on. It knows seconds and the three forms of an HTTP
// date. A time that has passed is 0; what is above MaxRetryAfter counts as that; ok is false for anything else.
func RetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds := 0
		for i := range len(value) {
			if seconds = seconds*10 + int(value[i]-'0'); seconds > int(MaxRetryAfter/time.Second) {
				return MaxRetryAfter, true
			}
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter), true
}
