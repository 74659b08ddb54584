package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// The exit codes; the command's comment explains them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitTooLate     = 4
	exitUnreachable = 5
	exitDamage      = 6
)

// errUsage is the kind of an error of the command line.
var errUsage = errors.New("usage")

// errReported is returned by a verb that has already said what is wrong, and that is wrong enough for exitError.
var errReported = errors.New("reported")

// errInterrupted says that a request was given up because of a signal: it is open whether it was done.
var errInterrupted = errors.New("interrupted")

// errNotFound and errDamage choose an exit code for an error of ours.
var (
	errNotFound = errors.New("not found")
	errDamage   = errors.New("damage")
)

// app is what the verbs share.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	format  string   // of formats
	columns []string // of --columns, or nil
	later   bool     // of --watch in a pipe: what comes goes on what is there
	drawn   bool     // a terminal shows what goes to stdout, though stdout is none
	url     string
	// tokenFile is where the token is; empty: in TIDEWHEEL_TOKEN, or nowhere
	tokenFile string
	// caFile has the certificates that sign for the server; empty: those that the machine trusts
	caFile  string
	verb    string // what failed, for complain
	running bool   // a verb has begun: what fails now is not the command line
}

// run does what the arguments say and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process as if nobody had asked for the first.
	context.AfterFunc(ctx, stop)
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && errors.Is(err, client.ErrUnreachable) {
		err = errInterrupted // it was not the server's fault
	}
	if !a.running && !errors.Is(err, errUsage) {
		err = errors.Join(errUsage, err) // cobra found it
	}
	a.verb = ran.CommandPath()
	a.complain(err)
	return exitCode(err)
}

// root is the command of all verbs.
func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tidewheel",
		Short: "Messages that become visible at their time",
		Long: `Tidewheel stores messages and makes them visible at their time: never early,
exactly once in their topic, also after a crash.

  tidewheel demo                                  see it work, with kill -9
  tidewheel serve --data ./data                   run a server
  tidewheel put orders '{"id":42}' --in 30m       visible in half an hour
  tidewheel consume orders --group billing --ack  read as they come
  tidewheel ls --topic orders --to +1h            what waits, and its handles
  tidewheel move HANDLE --by +2h                  or cancel HANDLE, fire HANDLE`,
		Version:       thisBuild().String(), // --version
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.ValidateFlagGroups(); err != nil {
				return err
			}
			a.running = true
			return a.checkFormat()
		},
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.PersistentFlags().StringVarP(&a.format, "output", "o", formatTable, "how results are printed: "+strings.Join(formats, ", "))
	cmd.AddCommand(
		a.demo(), a.dev(), a.serve(), a.put(), a.consume(),
		a.ls(), a.show(), a.explain(), a.horizon(), a.cancel(), a.move(), a.fire(), a.undo(), a.bulk(), a.watch(),
		a.stats(), a.topic(), a.group(), a.dlq(), a.plugin(),
		a.data(), a.config(), a.bench(), a.completion(), a.version(),
	)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, noFiles)) // it is there
	a.completes(cmd)
	return cmd
}

// withURL gives a verb the flag that says where the server is.
func (a *app) withURL(cmd *cobra.Command) *cobra.Command {
	url := os.Getenv("TIDEWHEEL_URL")
	if url == "" {
		url = client.DefaultURL
	}
	cmd.Flags().StringVar(&a.url, "url", url, "the server; also TIDEWHEEL_URL")
	cmd.Flags().StringVar(&a.tokenFile, "token-file", "", "a file with the bearer token; also TIDEWHEEL_TOKEN, which is the token itself")
	cmd.Flags().StringVar(&a.caFile, "ca-file", "", "a PEM file of certificates to trust for https, instead of those of this machine")
	return cmd
}

// client is the server's client.
func (a *app) client() (*client.Client, error) {
	token := os.Getenv("TIDEWHEEL_TOKEN")
	if a.tokenFile != "" {
		b, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		token = string(b)
	}
	opts := client.Options{Token: strings.TrimSpace(token)}
	if a.caFile != "" {
		b, err := os.ReadFile(a.caFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates: %w", err)
		}
		opts.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		if !opts.TLS.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%w: --ca-file %s has no certificate in PEM", errUsage, a.caFile)
		}
	}
	c, err := client.NewWith(a.url, opts)
	if err != nil {
		return nil, errors.Join(errUsage, err)
	}
	return c, nil
}

// served is what a verb does that speaks to the server.
func (a *app) served(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.CloseIdle()
		return do(cmd.Context(), c, args)
	}
}

// notLate are the conflicts that are none with what became of a message.
var notLate = []string{"broadcast", "idempotency_busy", "bulk_busy", "bulk_expired", "no_previous_plugin"}

// exitCode is what an error means to a script.
func exitCode(err error) int {
	var p *httpapi.Problem
	isProblem := errors.As(err, &p)
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errDamage), errors.Is(err, engine.ErrCorrupt), isProblem && p.Code == "damaged":
		return exitDamage
	case errors.Is(err, errNotFound), isProblem && p.Status == 404:
		return exitNotFound
	case isProblem && p.Status == 409 && !slices.Contains(notLate, p.Code):
		return exitTooLate
	case errors.Is(err, client.ErrUnreachable):
		return exitUnreachable
	}
	return exitError
}
