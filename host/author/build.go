package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidewheel/tidewheel/plugins"
)

// minGo is the first version of Go whose compiler exports functions from WebAssembly.
const minGo = "1.24"

// Built is a module that Build made.
type Built struct {
	File string
	Info plugins.Info
}

// Build compiles a project with the tools of its language and puts the manifest into the module, which is then compared with
// the ABI as a server would do. What the tools say goes to log. A tool that is not there is a *MissingError. The file takes
// the place of the last one in a moment, so that a server never reads half of it; it stays what it was when there is an error.
func (p *Project) Build(ctx context.Context, log io.Writer) (Built, error) {
	tmp, err := os.MkdirTemp("", "tidewheel-build")
	if err != nil {
		return Built{}, err
	}
	defer os.RemoveAll(tmp)
	raw := filepath.Join(tmp, "plugin.wasm")
	compile := map[Lang]func(context.Context, string, io.Writer) error{Go: p.buildGo, C: p.buildC, AssemblyScript: p.buildAS}[p.Lang]
	if err := compile(ctx, raw, log); err != nil {
		return Built{}, err
	}
	module, err := os.ReadFile(raw)
	if err != nil {
		return Built{}, err
	}
	if module, err = WithManifest(module, p.manifest); err != nil {
		return Built{}, err
	}
	info, err := plugins.Inspect(module, AllGrants)
	if err != nil {
		return Built{}, fmt.Errorf("what the compiler made is no plugin: %w", err)
	}
	if err := p.exports(info); err != nil {
		return Built{}, err
	}
	return Built{File: p.Module(), Info: info}, replace(p.Module(), module)
}

// AllGrants are all functions that a plugin may be granted: what it does with them can be seen before it is deployed.
var AllGrants = plugins.Grants{JSON: true, Headers: true, Match: true}

// exports compares the hooks of the manifest with those of the module.
func (p *Project) exports(info plugins.Info) error {
	for _, name := range p.Manifest.Hooks {
		found := false
		for _, h := range info.Hooks {
			found = found || h.String() == name
		}
		if !found {
			return fmt.Errorf("%s names the hook %s, which the code does not have", ManifestFile, name)
		}
	}
	return nil
}

// replace puts a file in the place of another.
func replace(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".tidewheel-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// run runs a tool in the project's directory. An error carries what it wrote.
func (p *Project) run(ctx context.Context, log io.Writer, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	text := strings.TrimSpace(said.String())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && text != "":
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, text)
	case err != nil:
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	case text != "":
		fmt.Fprintln(log, text)
	}
	return nil
}

var goVersion = regexp.MustCompile(`^go1\.(\d+)`)

func (p *Project) buildGo(ctx context.Context, out string, log io.Writer) error {
	missing := &MissingError{Tool: "Go " + minGo + " or later", Get: []string{
		"every system: https://go.dev/dl/ has an archive to unpack; put its bin directory on the PATH",
		"macOS: brew install go     Windows: winget install GoLang.Go     Debian, Ubuntu: apt install golang-go, if it is new enough",
	}}
	tool, err := exec.LookPath("go")
	if err != nil {
		missing.Why = "there is no go on the PATH"
		return missing
	}
	// The version of the tool itself: without GOTOOLCHAIN=local it may begin to fetch another one.
	cmd := exec.CommandContext(ctx, tool, "env", "GOVERSION")
	cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), "GOTOOLCHAIN=local")
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go env GOVERSION: %w", err)
	}
	if m := goVersion.FindSubmatch(text); m != nil {
		if minor, _ := strconv.Atoi(string(m[1])); minor < 24 {
			missing.Why = "this is " + strings.TrimSpace(string(text)) + ", which can't export functions from WebAssembly"
			return missing
		}
	}
	return p.run(ctx, log, []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"},
		tool, "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-o", out, ".")
}

func (p *Project) buildC(ctx context.Context, out string, log io.Writer) error {
	get := []string{
		"Debian, Ubuntu: apt install clang lld     Fedora: dnf install clang lld     Alpine: apk add clang lld",
		"macOS: brew install llvm lld, and put $(brew --prefix llvm)/bin on the PATH: Apple's own clang has no WebAssembly",
		"Windows: winget install LLVM.LLVM",
	}
	clang, err := firstTool("clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14")
	if err != nil {
		return &MissingError{Tool: "clang", Why: "it compiles C for WebAssembly, with wasm-ld, which is in lld", Get: get}
	}
	sources, err := filepath.Glob(filepath.Join(p.Dir, "*.c"))
	if err != nil {
		return err
	}
	args := []string{"--target=wasm32", "-O2", "-Wall", "-nostdlib", "-Wl,--no-entry", "-o", out}
	for _, s := range sources {
		args = append(args, filepath.Base(s))
	}
	err = p.run(ctx, log, nil, clang, args...)
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "wasm-ld"):
		return &MissingError{Tool: "wasm-ld", Why: filepath.Base(clang) + " is there, but not its linker for WebAssembly, which is in lld", Get: get}
	case strings.Contains(err.Error(), "No available targets are compatible"):
		return &MissingError{Tool: "clang", Why: clang + " can't compile for WebAssembly", Get: get}
	}
	return err
}

func (p *Project) buildAS(ctx context.Context, out string, log io.Writer) error {
	npm, err := firstTool("npm")
	if err != nil {
		return &MissingError{Tool: "npm", Why: "it brings the AssemblyScript compiler", Get: []string{
			"every system: https://nodejs.org has Node.js, which npm comes with",
			"Debian, Ubuntu: apt install npm     Fedora: dnf install nodejs     macOS: brew install node     Windows: winget install OpenJS.NodeJS",
		}}
	}
	asc := filepath.Join(p.Dir, "node_modules", ".bin", "asc")
	if _, err := os.Stat(asc); err != nil {
		fmt.Fprintln(log, "npm ci: fetching the AssemblyScript compiler into node_modules, once; this needs the network")
		if err := p.run(ctx, io.Discard, nil, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
			return err
		}
	}
	return p.run(ctx, log, nil, npm, "exec", "--offline", "--", "asc", "assembly/index.ts", "--config", "asconfig.json", "--outFile", out)
}

// firstTool is the first of several programs that is on the PATH.
func firstTool(names ...string) (string, error) {
	for _, name := range names {
		if tool, err := exec.LookPath(name); err == nil {
			return tool, nil
		}
	}
	return "", exec.ErrNotFound
}
