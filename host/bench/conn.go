package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// conn is a connection that speaks as much HTTP/1.1 as a load needs: requests are made of bytes, and of an answer only
// status, length and body are read. A client that does everything would take as much of a small machine as the server.
type conn struct {
	net.Conn
	r    *bufio.Reader
	head []byte // of each request, after its first line
	path string // before that of the API
	out  []byte // reused

	deadline time.Time // of reading and writing
}

// An answer may take answerPatience at least. The deadline is set anew when less than that is left, and not for each request:
// that would cost the load some percent.
const (
	answerPatience = time.Minute
	deadlineAhead  = 2 * answerPatience
)

func dial(base *url.URL, token string) (*conn, error) {
	host, port := base.Hostname(), base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	d := &net.Dialer{Timeout: 5 * time.Second}
	var c net.Conn
	var err error
	if base.Scheme == "https" {
		c, err = tls.DialWithDialer(d, "tcp", net.JoinHostPort(host, port), &tls.Config{NextProtos: []string{"http/1.1"}})
	} else {
		c, err = d.Dial("tcp", net.JoinHostPort(host, port))
	}
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	head := "Host: " + base.Host + "\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	return &conn{Conn: c, r: bufio.NewReader(c), head: []byte(head), path: base.Path}, nil
}

// post sends a request and reads its answer, whose body is in into or, if that is too short, in a slice of its own.
func (c *conn) post(ctx context.Context, path string, headers, body, into []byte) (status int, _ []byte, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	// An answer that is on its way when the context ends is waited for: else nobody would know what it was.
	if now := time.Now(); c.deadline.Sub(now) < answerPatience {
		c.deadline = now.Add(deadlineAhead)
		if err := c.SetDeadline(c.deadline); err != nil {
			return 0, nil, fmt.Errorf("bench: %w", err)
		}
	}
	c.out = append(append(append(c.out[:0], "POST "...), c.path...), path...)
	c.out = append(append(c.out, " HTTP/1.1\r\n"...), c.head...)
	c.out = append(c.out, headers...)
	c.out = append(strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(body)), 10), "\r\n\r\n"...)
	c.out = append(c.out, body...)
	if _, err := c.Write(c.out); err != nil {
		return 0, nil, fmt.Errorf("bench: %w", err)
	}
	return c.answer(into)
}

// errHTTP says that what came back is no HTTP/1.1.
var errHTTP = errors.New("bench: the answer is not HTTP/1.1")

// maxAnswer bounds the body of an answer, bytes.
const maxAnswer = 64 << 20

func (c *conn) answer(into []byte) (status int, body []byte, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, fmt.Errorf("bench: %w", err)
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || len(line) < 12 {
		return 0, nil, errHTTP
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, errHTTP
	}
	length, chunked := 0, false
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, nil, fmt.Errorf("bench: %w", err)
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case len(name) == 0:
			return c.readBody(status, length, chunked, into)
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 || length > maxAnswer {
				return 0, nil, errHTTP
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
}

func (c *conn) readBody(status, length int, chunked bool, into []byte) (int, []byte, error) {
	if chunked {
		b, err := io.ReadAll(io.LimitReader(httputil.NewChunkedReader(c.r), maxAnswer))
		if err == nil {
			_, err = c.r.ReadSlice('\n') // the empty line after the last chunk
		}
		return status, b, err
	}
	if cap(into) < length {
		into = make([]byte, length)
	}
	into = into[:length]
	if _, err := io.ReadFull(c.r, into); err != nil {
		return 0, nil, fmt.Errorf("bench: %w", err)
	}
	return status, into, nil
}

// remoteSender sends letters over a connection of its own.
type remoteSender struct {
	*conn
	topic, nonce string
	size         int
	body, got    []byte // reused
	headers      []byte
}

func (s *remoteSender) close() { _ = s.Close() }

func (s *remoteSender) send(ctx context.Context, letters []letter) error {
	s.body = s.body[:0]
	if len(letters) == 1 {
		l := letters[0]
		s.body = s.fill(s.body, l)
		s.headers = append(s.headers[:0], "Content-Type: text/plain\r\n"...)
		if l.dueMs != 0 {
			s.headers = append(append(s.headers, httpapi.HeaderMs...), ": "...)
			s.headers = append(strconv.AppendInt(s.headers, l.dueMs, 10), "\r\n"...)
		}
		status, answer, err := s.post(ctx, "/v1/topics/"+s.topic+"/messages", s.headers, s.body, s.got)
		if err != nil {
			return err
		}
		s.got = answer
		if status != http.StatusCreated {
			return refused(status, answer)
		}
		return nil
	}
	return s.sendMany(ctx, letters)
}

// fill appends a letter's body.
func (s *remoteSender) fill(b []byte, l letter) []byte {
	b = appendBody(b, s.nonce, l)
	for range s.size - minBody {
		b = append(b, '.')
	}
	return b
}

var ndjson = []byte("Content-Type: application/x-ndjson\r\n")

// sendMany sends letters as lines of NDJSON.
func (s *remoteSender) sendMany(ctx context.Context, letters []letter) error {
	for _, l := range letters {
		s.body = append(append(append(s.body, `{"topic":"`...), s.topic...), '"')
		if l.dueMs != 0 {
			s.body = strconv.AppendInt(append(s.body, `,"deliver_at_ms":`...), l.dueMs, 10)
		}
		s.body = append(s.fill(append(s.body, `,"body":"`...), l), "\"}\n"...)
	}
	status, answer, err := s.post(ctx, "/v1/messages/batch", ndjson, s.body, s.got)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refused(status, answer)
	}
	lines := 0
	for line := range bytes.Lines(answer) {
		lines++
		if !bytes.Contains(line, []byte(`"problem"`)) { // nor can a body have that: it is not in an answer
			continue
		}
		var r httpapi.BatchResult
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		if r.Problem != nil {
			return fmt.Errorf("bench: refused: %w", r.Problem)
		}
	}
	if lines != len(letters) {
		return fmt.Errorf("bench: %d letters were sent, %d answers came", len(letters), lines)
	}
	return nil
}

// refused is the error that a server answered.
func refused(status int, answer []byte) error {
	var p httpapi.Problem
	if json.Unmarshal(answer, &p) == nil && p.Code != "" {
		return fmt.Errorf("bench: refused: %w", &p)
	}
	return fmt.Errorf("bench: refused: status %d", status)
}
