package egress_test

import (
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/host/egress"
)

func ExampleClient_Target() {
	rule, _ := egress.ParseRule("*.example.com")
	c := egress.New(egress.Options{Allow: []egress.Rule{rule}})
	defer c.Close()
	for _, url := range []string{"https://hooks.example.com/orders", "https://hooks.example.com@evil.test/", "https://0177.0.0.1/"} {
		_, err := c.Target(url)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// egress: refused: URL "https://hooks.example.com@evil.test/": it names a user
	// egress: refused: URL "https://0177.0.0.1/": "0177.0.0.1" is a number and not an address in its canonical form
}

func ExampleVerify() {
	secret, _ := egress.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	header := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	fmt.Println(egress.Verify(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`), header))
	// Output: true
}

func ExampleRetryAfter() {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	wait, ok := egress.RetryAfter("Mon, 30 Nov 2026 12:00:30 GMT", now)
	fmt.Println(wait, ok)
	// Output: 30s true
}
