package httpapi

import (
	"io"
	"net"
	"testing"
)

// fakeConn is a connection from some address.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from)} }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

// fakeListener hands out connections and then ends.
type fakeListener struct {
	net.Listener
	conns []*fakeConn
}

func (l *fakeListener) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, io.EOF
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

// One peer does not take all connections; those of this machine count in all only, and a closed one makes room.
func TestCrowd(t *testing.T) {
	var conns []*fakeConn
	for _, from := range []string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "127.0.0.1", "::1", "127.0.0.1"} {
		conns = append(conns, &fakeConn{from: from})
	}
	c := newCrowd(&fakeListener{conns: conns}, 5, 2)
	var in []net.Conn
	for {
		conn, err := c.Accept()
		if err != nil {
			break
		}
		in = append(in, conn)
	}
	for i, want := range []bool{false, false, true, false, false, false, true} {
		if conns[i].closed != want {
			t.Errorf("connection %d from %s: closed is %v", i, conns[i].from, conns[i].closed)
		}
	}
	for _, conn := range in {
		for range 2 { // twice is once
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if c.all != 0 || len(c.hosts) != 0 {
		t.Errorf("%d connections, %v are left", c.all, c.hosts)
	}
}
