package client

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const defaultTimeLimit = 10 * time.Second

// Client is a client of one namespace. It is safe for concurrent use.
type Client struct {
	url         string
	key         string
	namespace   string
	http        *http.Client
	timeLimit   time.Duration
	repetitions Repetitions
	traceParent func(context.Context) string
	// wait is replaced in tests of the delays.
	wait func(context.Context, time.Duration) bool

	base          string
	authorization []string
	userAgent     []string
	gatherers     *gatherers
}

// Option is a setting of a client.
type Option func(*Client)

// WithURL sets the URL of the server, such as https://tidegate.example.com. Default: the variable TIDEGATE_URL.
func WithURL(url string) Option { return func(c *Client) { c.url = url } }

// WithKey sets the API key. Default: the variable TIDEGATE_KEY.
func WithKey(key string) Option { return func(c *Client) { c.key = key } }

// WithNamespace sets the namespace. Default: the variable TIDEGATE_NAMESPACE.
func WithNamespace(name string) Option { return func(c *Client) { c.namespace = name } }

// WithHTTPClient sets the HTTP client, for other proxies, certificates or a transport for tests. It should follow no
// redirects, and have no time limit of its own.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithTimeLimit sets how long each attempt of a request may take, in addition to the time that the request asks the
// server to wait. Default: 10 s.
func WithTimeLimit(limit time.Duration) Option { return func(c *Client) { c.timeLimit = limit } }

// WithRepetitions sets how often requests are repeated after errors.
func WithRepetitions(r Repetitions) Option { return func(c *Client) { c.repetitions = r } }

// WithTraceParent sets a function that returns the trace parent of the running span (W3C Trace Context: the value of the
// header traceparent), or "" if there is none. A publish sends it, and stores it in the attribute traceparent of the job.
func WithTraceParent(hook func(context.Context) string) Option {
	return func(c *Client) { c.traceParent = hook }
}

// New makes a client. It sends no request.
//
// The error is of the class [ErrInvalidRequest]: the URL, the key or the namespace is missing or not valid.
func New(options ...Option) (*Client, error) {
	c := &Client{
		url:         os.Getenv("TIDEGATE_URL"),
		key:         os.Getenv("TIDEGATE_KEY"),
		namespace:   os.Getenv("TIDEGATE_NAMESPACE"),
		timeLimit:   defaultTimeLimit,
		repetitions: defaultRepetitions(),
		wait:        sleep,
	}
	return c.configure(options)
}

// With returns a client with other settings, which shares the pool of connections.
func (c *Client) With(options ...Option) (*Client, error) {
	copied := *c
	return copied.configure(options)
}

func (c *Client) configure(options []Option) (*Client, error) {
	for _, set := range options {
		set(c)
	}
	if c.http == nil {
		c.http = defaultHTTPClient()
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	c.base = strings.TrimRight(c.url, "/") + "/v1/" + escape(c.namespace)
	c.authorization = []string{"Bearer " + strings.TrimSpace(c.key)}
	c.userAgent = []string{"tidegate-go/" + Version}
	c.gatherers = newGatherers()
	return c, nil
}

func (c *Client) check() error {
	if err := checkURL(c.url); err != nil {
		return err
	}
	if strings.TrimSpace(c.key) == "" {
		return invalid("key", "the client has no API key: use WithKey, or set TIDEGATE_KEY")
	}
	if !isVisibleASCII(strings.TrimSpace(c.key)) {
		return invalid("key", "the API key has characters that no API key has")
	}
	if c.namespace == "" {
		return invalid("namespace", "the client has no namespace: use WithNamespace, or set TIDEGATE_NAMESPACE")
	}
	if !isName(c.namespace) && c.namespace != "*" {
		return invalid("namespace", "the name of a namespace is 1 to 255 bytes of letters, digits, - and _")
	}
	return nil
}

// checkURL does not show the URL in its error, since it may have a password.
func checkURL(text string) error {
	if text == "" {
		return invalid("url", "the client has no URL: use WithURL, or set TIDEGATE_URL")
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") ||
		parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return invalid("url", "the URL names no server: write it like https://tidegate.example.com, without a user, "+
			"a query or a fragment")
	}
	return nil
}

// Namespace returns the namespace of the client.
func (c *Client) Namespace() string { return c.namespace }
