package egress

import "testing"

func BenchmarkTarget(b *testing.B) {
	c := New(Options{Allow: parseRules(b, "api.example.com", "*.customers.example")})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Target("https://a.customers.example/hooks/orders?x=1"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignature1KiB(b *testing.B) {
	all, body := secrets(b, vectorSecret), make([]byte, 1024)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		_ = Signature(all, vectorID, vectorSeconds, body)
	}
}
