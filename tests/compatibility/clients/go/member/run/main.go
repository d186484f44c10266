// A member of a group, of a Go client, until SIGTERM.
// Usage: join franz-go|sarama HOST:PORT TOPIC GROUP PROTOCOL ASSIGNOR
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"compatibility/franzclient"
	"compatibility/member"
	"compatibility/saramaclient"
)

var join = map[string]func(context.Context, member.Settings, *member.Lines) error{
	"franz-go": franzclient.Join,
	"sarama":   saramaclient.Join,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) != 6 || join[words[0]] == nil {
		return fmt.Errorf("usage: join franz-go|sarama HOST:PORT TOPIC GROUP PROTOCOL ASSIGNOR")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	settings := member.Settings{
		Bootstrap: words[1], Topic: words[2], Group: words[3], Protocol: words[4], Assignor: words[5],
	}
	return join[words[0]](ctx, settings, &member.Lines{})
}
