// Command filter is the Go plugin of the tests: it does what the first byte of a body says.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/tidewheel/tidewheel/plugins/guest"
)

var limit string

func init() {
	guest.Configure(func(config []byte) error {
		if len(config) > 2 {
			limit = string(config)
		}
		return nil
	})
	guest.Filter(func(r *guest.Record) guest.Verdict {
		if len(r.Body) == 0 {
			return guest.Keep()
		}
		switch r.Body[0] {
		case '!':
			panic("poison")
		case 's':
			for {
			}
		case 'z':
			time.Sleep(time.Hour)
		case 'w':
			<-make(chan int)
		case 'm':
			var hold [][]byte
			for {
				hold = append(hold, make([]byte, 1<<20))
			}
		case 'x':
			os.Exit(3)
		case 'g': // a goroutine that is left behind and never ends
			go func() {
				for {
					runtime.Gosched()
				}
			}()
		case 'l':
			guest.Log("seen " + string(r.Key))
		case 'd':
			return guest.Drop(7)
		case 't':
			return guest.Drop(uint16(time.Now().Unix()))
		case 'c':
			return guest.Fail(3, limit)
		case '{':
			if v, ok := r.JSON("/paid"); ok && string(v) == "true" {
				return guest.Drop(1)
			}
		}
		return guest.Keep()
	})
	guest.Transform(func(r *guest.Record) guest.Verdict {
		return guest.Replace(guest.Replacement{Topic: r.Topic, Body: []byte(fmt.Sprintf("<%s>", r.Body))})
	})
	guest.Prepare(func(r *guest.Record) guest.Verdict {
		return guest.Send(guest.Request{URL: "https://example.com/hook", Body: r.Body, Headers: guest.Headers(nil).Append([]byte("x-key"), r.Key)})
	})
	guest.Result(func(r *guest.Record) guest.Verdict {
		if r.Status() >= 500 || r.Status() == 0 {
			return guest.RetryAfter(1000, uint16(r.Status()))
		}
		return guest.Keep()
	})
}

func main() {}
