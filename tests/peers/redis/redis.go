// Package redis stands in for go-redis, which Debian does not have, inside the Rekor server that the tests build: the
// calls that server makes, answered from memory. Test use only.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"
)

var Nil = errors.New("redis: nil")

type Options struct {
	Addr, Network, Password string
	DB                      int
	TLSConfig               *tls.Config
}

type Client struct {
	options *Options
	mu      sync.Mutex
	lists   map[string][]string
	values  map[string]string
}

func NewClient(options *Options) *Client {
	return &Client{options: options, lists: map[string][]string{}, values: map[string]string{}}
}

func (c *Client) Options() *Options { return c.options }
func (c *Client) Close() error      { return nil }

type Cmder interface{ Err() error }

type StringSliceCmd struct{ values []string }

func (c *StringSliceCmd) Val() []string { return c.values }
func (c *StringSliceCmd) Err() error    { return nil }

type StringCmd struct {
	value string
	err   error
}

func (c *StringCmd) Result() (string, error) { return c.value, c.err }

type BoolCmd struct{ value bool }

func (c *BoolCmd) Result() (bool, error) { return c.value, nil }

type Pipeliner interface {
	LRange(context.Context, string, int64, int64) *StringSliceCmd
	LPush(context.Context, string, ...interface{})
}

type pipe struct {
	client  *Client
	results []Cmder
}

func (p *pipe) LRange(_ context.Context, key string, _, _ int64) *StringSliceCmd {
	cmd := &StringSliceCmd{append([]string{}, p.client.lists[key]...)}
	p.results = append(p.results, cmd)
	return cmd
}

func (p *pipe) LPush(_ context.Context, key string, values ...interface{}) {
	for _, value := range values {
		p.client.lists[key] = append([]string{value.(string)}, p.client.lists[key]...)
	}
}

func (c *Client) Pipelined(_ context.Context, run func(Pipeliner) error) ([]Cmder, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &pipe{client: c}
	err := run(p)
	return p.results, err
}

func (c *Client) SetNX(_ context.Context, key string, _ interface{}, _ time.Duration) *BoolCmd {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.values[key]
	c.values[key] = "1"
	return &BoolCmd{!there}
}

func (c *Client) Set(_ context.Context, key string, value interface{}, _ time.Duration) *StringCmd {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[key], _ = value.(string)
	return &StringCmd{"OK", nil}
}

func (c *Client) Get(_ context.Context, key string) *StringCmd {
	c.mu.Lock()
	defer c.mu.Unlock()
	if value, there := c.values[key]; there {
		return &StringCmd{value, nil}
	}
	return &StringCmd{"", Nil}
}
