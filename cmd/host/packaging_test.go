package main

import (
	"bufio"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/config"
)

// TestPackagingConfig: the file that is installed is good, and is where the unit looks.
func TestPackagingConfig(t *testing.T) {
	cfg, err := config.Load(config.Source{File: root + "packaging/tidewheel.toml"})
	if err != nil {
		t.Fatal(err)
	}
	unit := readDoc(t, "packaging/tidewheel.service")
	for _, line := range []string{
		"ExecStart=/usr/bin/tidewheel serve -c /etc/tidewheel/tidewheel.toml\n",
		"Environment=TIDEWHEEL_DATA_DIR=" + cfg.DataDir + "\n",
		"StateDirectory=" + filepath.Base(cfg.DataDir) + "\n",
		"Type=notify\n", "ExecReload=/bin/kill -HUP $MAINPID\n",
	} {
		if !strings.Contains(unit, line) {
			t.Errorf("the unit lacks %q", line)
		}
	}
	if strings.Contains(unit, "\nMemoryDenyWriteExecute=yes") {
		t.Error("the unit forbids to compile plugins")
	}
}

// TestPackagingVariables: what unit, Dockerfile and README set are variables that the server takes.
func TestPackagingVariables(t *testing.T) {
	known := map[string]bool{}
	for _, s := range config.Default().Settings() {
		known[s.Variable] = true
	}
	found := 0
	for _, file := range []string{"tidewheel.service", "Dockerfile", "README.md"} {
		for _, name := range regexp.MustCompile(`TIDEWHEEL_[A-Z_]+`).FindAllString(readDoc(t, "packaging/"+file), -1) {
			found++
			if !known[name] && !strings.HasPrefix(name, "TIDEWHEEL_SECRET_") { // of a plugin, by its name
				t.Errorf("%s: there is no %s", file, name)
			}
		}
	}
	if found < 8 {
		t.Errorf("found %d variables: the pattern is wrong", found)
	}
}

// TestPackagingUnit has systemd read the unit, and judge how much it leaves open.
func TestPackagingUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here: the unit was not verified")
	}
	// It looks for the program that the unit starts.
	unit := strings.ReplaceAll(readDoc(t, "packaging/tidewheel.service"), "/usr/bin/tidewheel", program())
	file := filepath.Join(t.TempDir(), "tidewheel.service")
	if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", file).CombinedOutput()
	if err != nil {
		t.Skipf("this systemd-analyze cannot judge a file: %.200s", out)
	}
	m := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no exposure level in %s", out)
	}
	if level, err := strconv.ParseFloat(string(m[1]), 64); err != nil || level > 2 {
		t.Errorf("exposure level %s, at most 2 is wanted\n%s", m[1], out)
	}
}

// dockerfile is a Dockerfile's instructions in order, with lines joined: a word and the rest.
func dockerfile(t *testing.T) [][2]string {
	t.Helper()
	text := strings.ReplaceAll(readDoc(t, "packaging/Dockerfile"), "\\\n", " ")
	var list [][2]string
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "#") {
			word, rest, _ := strings.Cut(line, " ")
			list = append(list, [2]string{word, strings.TrimSpace(rest)})
		}
	}
	return list
}

// TestPackagingDockerfile checks what can be checked without an image: instructions that exist, stages and files that are
// there, a last stage without root, shell and RUN.
func TestPackagingDockerfile(t *testing.T) {
	instructions := []string{"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
	stages := map[string]bool{}
	var last [][2]string
	for _, in := range dockerfile(t) {
		if !slices.Contains(instructions, in[0]) {
			t.Errorf("%s is no instruction that this test knows", in[0])
		}
		switch fields := strings.Fields(in[1]); in[0] {
		case "FROM":
			last = nil
			if len(fields) == 3 {
				stages[fields[2]] = true
			}
		case "COPY":
			from, isStage := strings.CutPrefix(fields[0], "--from=")
			if isStage && !stages[from] {
				t.Errorf("COPY %s: there is no such stage before it", in[1])
			}
			for _, name := range fields[:len(fields)-1] {
				if _, err := os.Stat(root + name); !isStage && err != nil {
					t.Errorf("COPY %s: %v", in[1], err)
				}
			}
		}
		last = append(last, in)
	}
	said := map[string]string{}
	for _, in := range last {
		said[in[0]] = in[1]
	}
	if said["USER"] != "65532:65532" || said["ENTRYPOINT"] != `["/usr/bin/tidewheel"]` || said["CMD"] != `["serve"]` || said["RUN"] != "" {
		t.Errorf("the image is %v", said)
	}
}

// TestPackagingBinary builds as the Dockerfile does; the result is static, since the image has no loader.
func TestPackagingBinary(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("the image is one for Linux, and building it is not short")
	}
	command := ""
	for _, in := range dockerfile(t) {
		if in[0] == "RUN" && strings.Contains(in[1], "go build") {
			command, _, _ = strings.Cut(in[1], " && ")
		}
	}
	out := filepath.Join(t.TempDir(), "tidewheel")
	command = strings.Replace(command, "/out/tidewheel", out, 1)
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, text)
	}
	f, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary needs a loader")
		}
	}
	if text, err := exec.Command(out, "version").Output(); err != nil || !strings.HasPrefix(string(text), "tidewheel ") {
		t.Errorf("version says %q, %v", text, err)
	}
}

// TestPackagingImage builds the image, where a docker daemon is there that has, or gets, the images it starts from.
func TestPackagingImage(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("no docker daemon: the image was not built (%.80s)", strings.TrimSpace(string(out)))
	}
	for _, in := range dockerfile(t) {
		if _, image, ok := strings.Cut(in[1], "_IMAGE="); ok && in[0] == "ARG" {
			if exec.Command("docker", "image", "inspect", image).Run() != nil && exec.Command("docker", "pull", "-q", image).Run() != nil {
				t.Skipf("docker cannot get %s: the image was not built", image)
			}
		}
	}
	const name = "tidewheel-test"
	if out, err := exec.Command("docker", "build", "-f", root+"packaging/Dockerfile", "-t", name, root).CombinedOutput(); err != nil {
		t.Fatalf("docker build: %v\n%s", err, out)
	}
	defer func() { _ = exec.Command("docker", "image", "rm", name).Run() }()
	if out, err := exec.Command("docker", "run", "--rm", name, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "tidewheel ") {
		t.Errorf("docker run: %v\n%s", err, out)
	}
}
