package tidegatetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/clients/go/client"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
	// shownBytes is how much of the log an error shows.
	shownBytes = 2000
)

// Server is a real server with a private Redis, on free ports of this machine.
type Server struct {
	// URL, Key and Namespace are for a client. The key has all scopes.
	URL, Key, Namespace string
	// AdminURL is the admin port of the API.
	AdminURL string

	command *exec.Cmd
	ended   chan struct{}
	log     *tail
}

// StartServer runs `tidegate dev --json`, and waits until it serves. The program is the argument; or, if that is empty,
// the variable TIDEGATE_PROGRAM; or tidegate in PATH. It needs redis-server or valkey-server in PATH, or the variable
// TG_REDIS_SERVER. Stop the server with [Server.Stop].
func StartServer(ctx context.Context, program string) (*Server, error) {
	path, err := findProgram(program)
	if err != nil {
		return nil, err
	}
	port, adminPort, err := freePorts()
	if err != nil {
		return nil, err
	}
	s := &Server{ended: make(chan struct{}), log: &tail{}}
	s.command = exec.Command(path, "dev", "--json", "--port", port, "--admin-port", adminPort)
	s.command.Env = environment()
	s.command.Stderr = s.log
	output, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("tidegatetest: failed to start %s: %w", path, err)
	}
	started := make(chan error, 1)
	go s.watch(bufio.NewReader(output), started)
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case err = <-started:
	case <-ctx.Done():
		err = fmt.Errorf("tidegatetest: %s did not serve in time: %s", path, s.log)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// watch reads the description of the server, and waits for the end of the process.
func (s *Server) watch(output *bufio.Reader, started chan<- error) {
	var described struct {
		URL       string `json:"url"`
		AdminURL  string `json:"admin_url"`
		Key       string `json:"key"`
		Namespace string `json:"namespace"`
	}
	decoder := json.NewDecoder(output)
	err := decoder.Decode(&described)
	if err == nil {
		s.URL, s.AdminURL, s.Key, s.Namespace = described.URL, described.AdminURL, described.Key, described.Namespace
		started <- nil
		_, _ = output.WriteTo(s.log)
	}
	ended := s.command.Wait()
	if err != nil {
		started <- fmt.Errorf("tidegatetest: the server has ended (%v): %s", ended, s.log)
	}
	close(s.ended)
}

// Client returns a client of the namespace of the server.
func (s *Server) Client(options ...client.Option) (*client.Client, error) {
	all := []client.Option{client.WithURL(s.URL), client.WithKey(s.Key), client.WithNamespace(s.Namespace)}
	return client.New(append(all, options...)...)
}

// NewNamespace returns a client of another namespace, with a new key that has all scopes. Tests that share a server do
// not meet if each has its own namespace.
func (s *Server) NewNamespace(ctx context.Context, name string) (*client.Client, error) {
	admin, err := client.New(client.WithURL(s.AdminURL), client.WithKey("none"), client.WithNamespace(name),
		client.WithHTTPClient(&http.Client{}))
	if err != nil {
		return nil, err
	}
	scopes := []string{"publish", "consume", "read", "admin"}
	key, err := admin.CreateKey(ctx, client.NewAPIKey{Scopes: scopes, Description: "tests"})
	if err != nil {
		return nil, err
	}
	return s.Client(client.WithKey(key.Secret), client.WithNamespace(name))
}

// Stop ends the server with its Redis, and waits for the end.
func (s *Server) Stop() error {
	// An interrupt lets the program end its daemons; the error says that it has ended already.
	_ = s.command.Process.Signal(os.Interrupt)
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-s.ended:
		return nil
	case <-timer.C:
		_ = s.command.Process.Kill()
		return fmt.Errorf("tidegatetest: the server did not end within %v, and was killed", stopLimit)
	}
}

func findProgram(program string) (string, error) {
	if program == "" {
		program = os.Getenv("TIDEGATE_PROGRAM")
	}
	if program == "" {
		program = "tidegate"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("tidegatetest: no program tidegate: set TIDEGATE_PROGRAM to its path: %w", err)
	}
	return path, nil
}

// environment is the environment without variables that are settings of the daemons.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TIDEGATE_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// freePorts returns two ports that no process uses now.
func freePorts() (string, string, error) {
	var ports [2]string
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", fmt.Errorf("tidegatetest: no free port: %w", err)
		}
		defer listener.Close()
		ports[i] = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	}
	return ports[0], ports[1], nil
}

// tail keeps the end of a log.
type tail struct {
	mutex sync.Mutex
	text  []byte
}

func (t *tail) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-shownBytes):]
	return len(text), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(bytes.TrimSpace(t.text))
}
