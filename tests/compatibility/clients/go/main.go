// The Go clients against a broker. Usage: drive franz-go|sarama HOST:PORT TOPIC-PREFIX
package main

import (
	"fmt"
	"os"

	"compatibility/franzclient"
	"compatibility/saramaclient"
	"compatibility/suite"
)

var connect = map[string]func(bootstrap string) (suite.Client, error){
	"franz-go": franzclient.Connect,
	"sarama":   saramaclient.Connect,
}

func main() {
	if err := drive(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func drive(arguments []string) error {
	if len(arguments) != 3 || connect[arguments[0]] == nil {
		return fmt.Errorf("usage: drive franz-go|sarama HOST:PORT TOPIC-PREFIX")
	}
	client, err := connect[arguments[0]](arguments[1])
	if err != nil {
		return err
	}
	defer client.Close()
	suite.Run(client, arguments[2])
	return nil
}
