package httpapi

import (
	"net"
	"sync"
)

// How many connections there may be: in all, and of one address of another machine.
const (
	maxConnections = 8192
	maxPerHost     = 512
)

// crowd is a listener that closes connections beyond a limit at once, so that one peer cannot take them all and a process
// does not run out of files. It is safe for concurrent use.
type crowd struct {
	net.Listener
	most, mostOfHost int

	mu    sync.Mutex
	all   int
	hosts map[string]int // of addresses of other machines
}

func newCrowd(l net.Listener, most, mostOfHost int) *crowd {
	return &crowd{Listener: l, most: most, mostOfHost: mostOfHost, hosts: map[string]int{}}
}

// Accept waits for the next connection that may stay.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := strangeHost(conn)
		if c.enter(host) {
			return &guest{Conn: conn, crowd: c, host: host}, nil
		}
		_ = conn.Close() // it is turned away, whatever that says
	}
}

// strangeHost is a peer's address; empty for one on this machine.
func strangeHost(conn net.Conn) string {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return ""
	}
	return tcp.IP.String()
}

func (c *crowd) enter(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.most || host != "" && c.hosts[host] >= c.mostOfHost {
		return false
	}
	c.all++
	if host != "" {
		c.hosts[host]++
	}
	return true
}

func (c *crowd) leave(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if host == "" {
		return
	}
	if c.hosts[host]--; c.hosts[host] == 0 {
		delete(c.hosts, host)
	}
}

// guest is a connection that counts until it is closed.
type guest struct {
	net.Conn
	crowd *crowd
	host  string
	once  sync.Once
}

// Close closes the connection.
func (g *guest) Close() error {
	err := g.Conn.Close()
	g.once.Do(func() { g.crowd.leave(g.host) })
	return err
}

// CloseWrite ends what is sent, so that an answer to a body that was not read arrives all the same.
func (g *guest) CloseWrite() error {
	if half, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
