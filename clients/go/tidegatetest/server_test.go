package tidegatetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingProgramIsNamed(t *testing.T) {
	t.Setenv("TIDEGATE_PROGRAM", "")
	t.Setenv("PATH", t.TempDir())
	_, err := StartServer(context.Background(), "")
	if err == nil || !strings.Contains(err.Error(), "TIDEGATE_PROGRAM") {
		t.Error(err)
	}
}

func TestProgramThatEndsShowsItsLog(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tidegate")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no redis >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := StartServer(context.Background(), program)
	if err == nil || !strings.Contains(err.Error(), "no redis") {
		t.Error(err)
	}
}

// TestServer runs only where a program is named.
func TestServer(t *testing.T) {
	if os.Getenv("TIDEGATE_PROGRAM") == "" {
		t.Skip("TIDEGATE_PROGRAM is not set")
	}
	server, err := StartServer(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	c, err := server.NewNamespace(context.Background(), "other")
	if err != nil {
		t.Fatal(err)
	}
	if job, err := c.Queue("q").Publish(context.Background(), 1); err != nil || job.Outcome != "created" {
		t.Error(job, err)
	}
}
